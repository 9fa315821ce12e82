//! Queue disciplines of a link in scenarios.

use carob_cc::time::Duration;
use carob_sim::link::{CoDelSpec, Discipline, RedSpec};
use carob_sim::random::Probability;

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;
use super::value::Value;

/// RFC 8289 4.3.
const CODEL_TARGET: Duration = Duration::from_millis(5);

impl Cell {
    /// Queue discipline of a buffer of `buffer` bytes before a line of `rate_bps`.
    pub(super) fn discipline(
        &self,
        buffer: u64,
        mtu: u64,
        rate_bps: u64,
    ) -> Result<Discipline, ScenarioError> {
        let ecn = self.text("link.ecn")? == "on";
        Ok(match self.text("link.queue")? {
            "red" => Discipline::Red(self.red(buffer, mtu, ecn)?),
            "codel" => Discipline::CoDel(self.codel(mtu, rate_bps, ecn)?),
            _ => Discipline::DropTail,
        })
    }

    fn red(&self, buffer: u64, mtu: u64, ecn: bool) -> Result<RedSpec, ScenarioError> {
        let or = |path: &str, otherwise: u64| {
            if self.has(path) {
                self.bytes(path)
            } else {
                Ok(otherwise)
            }
        };
        let min_bytes = or("link.red_min", buffer / 4)?;
        let max_bytes = or("link.red_max", buffer / 4 * 3)?;
        if min_bytes >= max_bytes {
            let path = ["link.red_max", "link.red_min"]
                .into_iter()
                .find(|path| self.has(path))
                .unwrap_or("link.queue");
            let why = format!("link.red_min {min_bytes} B is not below link.red_max {max_bytes} B");
            return Err(impossible(self.place(path), why));
        }
        let Value::Percent(most) = self.value_of("link.red_most")? else {
            return Err(self.wrong_kind("link.red_most"));
        };
        Ok(RedSpec {
            min_bytes,
            max_bytes,
            most: Probability::ppm(*most),
            weight_shift: self.whole("link.red_weight_shift")? as u8,
            packet_bytes: mtu as u32,
            ecn,
        })
    }

    fn codel(&self, mtu: u64, rate_bps: u64, ecn: bool) -> Result<CoDelSpec, ScenarioError> {
        let path = "link.codel_target";
        let target = if self.has(path) {
            self.time(path)?
        } else {
            let packet = u128::from(mtu) * 8_000_000 / u128::from(rate_bps.max(1));
            let micros = u64::try_from(packet).unwrap_or(u64::MAX);
            CODEL_TARGET.max(Duration::from_micros(micros))
        };
        let path = "link.codel_interval";
        let interval = self.time(path)?;
        if interval.is_zero() {
            let why = "link.codel_interval is 0, so nothing would ever stand long enough";
            return Err(impossible(self.place(path), why));
        }
        Ok(CoDelSpec {
            target,
            interval,
            mtu_bytes: mtu as u32,
            ecn,
        })
    }
}
