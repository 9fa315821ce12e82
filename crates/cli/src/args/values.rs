//! Values of arguments: what people may write, and what it means.

use std::net::SocketAddr;
use std::time::Duration;

use carob::{BlockSize, Choice};
use carob_lab::scenario::keys::distance;

use crate::failure::{Failure, Kind};

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = "expected a time with its unit, such as 5s or 400ms";
    let duration: carob_cc::time::Duration = text.parse().map_err(|_| unit)?;
    if duration.is_zero() {
        return Err("expected a time longer than 0".into());
    }
    Ok(duration.into())
}

pub(super) fn block_size(text: &str) -> Result<BlockSize, String> {
    let wrong = "expected 16, 32, 64, 128, 256, 512 or 1024";
    let bytes: usize = text.parse().map_err(|_| wrong)?;
    let size = BlockSize::from_bytes_at_most(bytes).filter(|size| size.bytes() == bytes);
    size.ok_or_else(|| wrong.into())
}

/// An address as it is written in a URI.
pub(crate) fn authority(address: SocketAddr) -> String {
    format!("coap://{address}")
}

/// The controller of a name.
pub(crate) fn controller(name: &str) -> Result<Choice, Failure> {
    Choice::named(name).map_err(|unknown| {
        let failure = Failure::new(Kind::Usage, format_args!("--cc: {unknown}"));
        let names = carob_cc::registry::entries().map(|entry| entry.name);
        match nearest(name, names) {
            Some(near) => failure.hint(format_args!(
                "did you mean \"{near}\"? `carob cc list` explains all"
            )),
            None => failure.hint("`carob cc list` explains all"),
        }
    })
}

/// The name nearest to a wrong one, if any is near.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let limit = wrong.chars().count().div_ceil(2);
    names
        .map(|name| (distance(&wrong, &name.to_lowercase()), name))
        .min()
        .filter(|(distance, _)| *distance <= limit)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_controller_finds_its_neighbour() {
        let near = |wrong| {
            let names = carob_cc::registry::entries().map(|entry| entry.name);
            nearest(wrong, names)
        };
        assert_eq!(near("cocoa-3"), Some("cocoa-03"));
        assert_eq!(near("Defualt"), Some("default"));
        assert_eq!(near("xyzzy-quux-frobnicate"), None);
    }

    #[test]
    fn times_need_units_and_block_sizes_are_powers_of_two() {
        assert_eq!(duration("400ms"), Ok(Duration::from_millis(400)));
        assert!(duration("5").is_err());
        assert!(duration("0s").is_err());
        assert_eq!(block_size("64").map(BlockSize::bytes), Ok(64));
        assert!(block_size("100").is_err());
        assert!(block_size("2048").is_err());
    }
}
