//! IPv4 fragmentation of a packet larger than the link's MTU (RFC 791 3.2).
//!
//! Every fragment has an IP header and, except for the last, carries a multiple of eight bytes. The
//! packet arrives with its last fragment, and not at all if one is lost.

/// An IPv4 header without options, in bytes.
pub(crate) const IP_HEADER: u32 = 20;
/// The smallest MTU that every link of IPv4 has, in bytes (RFC 791 3.2).
pub(crate) const MTU_MIN: u32 = 68;

/// Sizes of the fragments of a packet of `bytes` bytes, headers included; the packet itself if it
/// fits.
pub(crate) fn fragments(bytes: u32, mtu: u32) -> impl Iterator<Item = u32> {
    let most = if bytes <= mtu {
        bytes
    } else {
        // The fragment offset counts units of 8 bytes (RFC 791 3.1).
        (mtu.max(MTU_MIN) - IP_HEADER) / 8 * 8
    };
    let whole = bytes <= mtu;
    let mut left = if whole { bytes } else { bytes - IP_HEADER };
    let header = if whole { 0 } else { IP_HEADER };
    core::iter::from_fn(move || {
        let carried = left.min(most);
        left -= carried;
        (carried > 0).then_some(carried + header)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: u32, mtu: u32) -> Vec<u32> {
        fragments(bytes, mtu).collect()
    }

    #[test]
    fn small_packet_is_not_fragmented() {
        assert_eq!(of(296, 296), [296]);
        assert_eq!(of(40, 296), [40]);
    }

    #[test]
    fn large_packet_is_fragmented_at_multiples_of_eight() {
        // 280 bytes behind the IP header: 272 + 8.
        assert_eq!(of(300, 296), [292, 28]);
        assert_eq!(of(1_000, 296), [292, 292, 292, 184]);
        assert_eq!(of(120, 68), [68, 68, 24]);
    }

    #[test]
    fn fragments_carry_the_whole_packet() {
        for bytes in 21..2_000 {
            let cut = of(bytes, 100);
            assert!(cut.iter().all(|&size| size <= 100));
            let headers = if cut.len() > 1 { cut.len() as u32 } else { 1 };
            let carried: u32 = cut.iter().sum();
            assert_eq!(carried - headers * IP_HEADER, bytes - IP_HEADER);
        }
    }
}
