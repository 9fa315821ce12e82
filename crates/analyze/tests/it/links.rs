use carob_analyze::synthetic::FileLayout;
use carob_analyze::{Certainty, FittedLink, Options, analyze};

use crate::traffic::{Path, Traffic};

/// Sizes of requests and responses; both vary, so that rates can be estimated.
const SIZES: &[[usize; 2]] = &[
    [8, 16],
    [8, 256],
    [8, 1_024],
    [64, 64],
    [512, 16],
    [1_000, 128],
];

fn fitted(path: &Path, sizes: &[[usize; 2]]) -> FittedLink {
    let traffic = Traffic::requests(path, 2_000, sizes, 11);
    let file = traffic.client_file(FileLayout::Pcapng, true);
    let found = analyze(&file[..], &Options::default()).expect("a capture");
    found.link.expect("round trips")
}

fn assert_near(found: f64, truth: f64, share: f64, about: &str) {
    assert!(
        (found - truth).abs() <= share * truth,
        "{about}: {found} for {truth}"
    );
}

#[test]
fn rates_delay_jitter_and_loss_of_a_path_are_found() {
    // Jitter of several transmission times makes the rates less certain.
    for (rtt, jitter, rates, losses, within) in [
        (630_000, 0, [60_000, 30_000], [20_000, 20_000], 0.01),
        (1_270_000, 200_000, [20_000, 80_000], [1_000, 1_000], 0.1),
        (100_000, 50_000, [375_000, 300_000], [10_000, 10_000], 0.2),
        (40_000, 10_000, [250_000, 250_000], [100_000, 100_000], 0.1),
    ] {
        let path = Path {
            rtt,
            jitter,
            rates,
            losses,
            slow: (0, 0),
            server_time: 0,
            timeout: 4_000_000,
        };
        let link = fitted(&path, SIZES);
        let about = format!("{path:?}: {link:?}");
        assert_near(link.up_bps.value, rates[0] as f64, within, &about);
        assert_near(link.down_bps.value, rates[1] as f64, within, &about);
        assert_eq!(link.down_bps.certainty, Certainty::Measured);
        assert_near(link.rtt_us.value, rtt as f64, 0.05, &about);
        assert!(
            (link.jitter_us.value - jitter as f64).abs() <= 0.1 * jitter as f64 + 1_000.0,
            "{about}"
        );
        assert!(
            (link.loss.value - losses[0] as f64 / 1e6).abs() < 0.01,
            "{about}"
        );
        assert_eq!(link.buffer_bytes, None);
    }
}

#[test]
fn uniform_packet_size_gives_no_rate_estimate() {
    let path = Path {
        rates: [60_000, 30_000],
        jitter: 5_000,
        ..Path::DEFAULT
    };
    let link = fitted(&path, &[[10, 256]]);
    assert_eq!(link.down_bps.certainty, Certainty::Unknown);
    let text = link.to_toml("a.pcapng");
    assert!(
        text.contains("# not known: no transmission time was seen"),
        "{text}"
    );
    assert!(text.starts_with("# Fitted to "), "{text}");
    assert!(text.contains("# buffer: not known"), "{text}");
}

#[test]
fn slow_outliers_do_not_change_the_link() {
    let path = Path {
        rates: [60_000, 30_000],
        slow: (50_000, 800_000),
        losses: [0, 0],
        ..Path::DEFAULT
    };
    let link = fitted(&path, SIZES);
    assert_near(link.down_bps.value, 30_000.0, 0.1, "rate");
    assert_near(link.rtt_us.value, 400_000.0, 0.08, "rtt");
}
