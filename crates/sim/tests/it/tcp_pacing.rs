//! Transmission times of a paced sender.
//!
//! The path takes 50 ms per direction: the initial rate is 2.887 times the initial window in 100 ms.

use crate::tcp_common::{BEGIN, Path, ms, segments, with};
use carob_sim::tcp::TcpSettings;

/// Times of the first segments of a connection.
fn departures(base: TcpSettings, changes: &[(&str, &str)]) -> Vec<u64> {
    let bbr = with(base, &[("congestion", "bbr1"), ("initial_window", "16")]);
    let mut path = Path::connected(&with(bbr, changes));
    path.send(true, segments(16), false);
    path.run_for(ms(90));
    let times = path.data_of_a().into_iter().map(|(time, _)| time - BEGIN);
    times.collect()
}

#[test]
fn linux_paces_from_the_tenth_segment_on() {
    let paced = departures(TcpSettings::KERNEL, &[("unpaced_segments", "0")]);
    // 16 segments in 100 ms, times 2.887 less one percent: one in 2.19 ms. The first gap is halved as for a late
    // transmission.
    assert_eq!(paced[..6], [0, 1, 3, 5, 7, 9]);
    let linux = departures(TcpSettings::KERNEL, &[]);
    assert_eq!(linux[..10], [0; 10]);
    assert_eq!(linux[10..13], [1, 3, 5]);
}

#[test]
fn headers_count_in_the_rate_as_in_the_segments() {
    let payload = departures(
        TcpSettings::KERNEL,
        &[("unpaced_segments", "0"), ("bbr_pacing_headers", "false")],
    );
    let packets = departures(
        TcpSettings::KERNEL,
        &[("unpaced_segments", "0"), ("bbr_pacing_headers", "true")],
    );
    assert_eq!(payload, packets);
}

#[test]
fn frame_header_counts_in_the_segments_only() {
    // 2.17 ms for 296 bytes of 296, twice that for 592.
    let packets = departures(TcpSettings::THESIS, &[]);
    assert_eq!(packets[..5], [0, 1, 3, 5, 7]);
    let frames = departures(TcpSettings::THESIS, &[("bbr_pacing_frame", "296")]);
    assert_eq!(frames[..5], [0, 2, 6, 10, 15]);
}
