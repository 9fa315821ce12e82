//! Facts about one hop of a wireless network: two nodes without interference.

use std::collections::BTreeMap;

use carob_cc::time::Instant;
use carob_sim::mesh::radio::{Event, Ground, Radio, Upcall};
use carob_sim::mesh::spec::{Delivery, MacSpec, RadioSpec};
use carob_sim::random::Probability;

use carob_lab::scenario;

/// Frames sent.
const TRIES: u32 = 10_000;
/// Bytes of each: a message of the CoAP study, FCS included.
const FRAME: u16 = 100;

pub(super) fn delivery(argument: &str) -> Option<f64> {
    let (share, transmissions) = argument.rsplit_once('-')?;
    let delivery = match share {
        "drawn" => scenario::lossy()?,
        percent => {
            let percent: u32 = percent.parse().ok().filter(|share| *share <= 100)?;
            Delivery::Fixed(Probability::ppm(percent * 10_000))
        }
    };
    let radio = RadioSpec {
        delivery,
        ..RadioSpec::default()
    };
    let mac = MacSpec {
        transmissions_max: transmissions.parse().ok().filter(|n| *n > 0)?,
        ..MacSpec::default()
    };
    let ground = Ground {
        positions: &[(0, 0, 0), (10_000, 0, 0)],
        regions: &[0, 0],
        table: None,
    };
    let mut medium: Radio<u32> = Radio::new(&ground, &radio, &mac, 1);
    let mut now = Instant::ZERO;
    let mut arrived = 0;
    for frame in 0..TRIES {
        // In the order of their times, and of those at the same time as they came.
        let mut waiting: BTreeMap<(Instant, u32), Event> = BTreeMap::new();
        let (mut number, mut up) = (0, Vec::new());
        let mut schedule = |waiting: &mut BTreeMap<_, _>, at: Instant, event: Event| {
            number += 1;
            waiting.insert((at, number), event);
        };
        let sent = medium.send(now, 0, Some(1), FRAME, frame, &mut |at, event| {
            schedule(&mut waiting, at, event);
        });
        sent.ok()?;
        while let Some(((at, _), event)) = waiting.pop_first() {
            now = at;
            let mut later = Vec::new();
            medium.handle(
                now,
                event,
                &mut |at, event| later.push((at, event)),
                &mut up,
            );
            for (at, event) in later {
                schedule(&mut waiting, at, event);
            }
        }
        let is_it = |call: &Upcall<u32>| matches!(call, Upcall::Received { payload, .. } if *payload == frame);
        arrived += u32::from(up.iter().any(is_it));
    }
    Some(f64::from(arrived) / f64::from(TRIES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_attempt_frame_arrives_at_the_links_ratio() {
        assert_eq!(delivery("100-1"), Some(1.0));
        let once = delivery("75-1").expect("a hop");
        // The standard deviation of 10,000 tries is 0.4 %.
        assert!((once - 0.75).abs() < 0.02, "{once}");
        assert_eq!(delivery("101-1"), None);
        assert_eq!(delivery("75-0"), None);
    }
}
