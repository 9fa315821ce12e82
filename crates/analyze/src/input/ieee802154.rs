//! IEEE 802.15.4 frames with 6LoWPAN: MAC header, mesh and fragment headers (RFC 4944).

use super::Frame;
use super::link::Link;
use super::packet::{Other, Packet};
use super::sixlowpan::LinkAddress;

/// Type of data frames.
const DATA: u16 = 1;
/// Frame version of IEEE 802.15.4-2015.
const VERSION_2015: u16 = 2;
/// Header and payload information elements that end their lists.
const HEADER_TERMINATION: [u16; 2] = [0x7e, 0x7f];
const PAYLOAD_TERMINATION: u16 = 0xf;

/// A 6LoWPAN packet, or a fragment of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compressed<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes at the end that the capture has not.
    pub(super) missing: usize,
    pub(super) addresses: [LinkAddress; 2],
}

/// Fields of a frame, read one after the other.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Other> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(Other::Malformed)?;
        self.0 = rest;
        Ok(field)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Other> {
        Ok(self.take(1)?[0])
    }

    /// A number of two bytes, the lower one first, as the MAC layer has them.
    fn little(&mut self) -> Result<u16, Other> {
        let field = self.take(2)?;
        Ok(u16::from_le_bytes([field[0], field[1]]))
    }

    /// A number of two bytes in network order.
    pub(super) fn big(&mut self) -> Result<u16, Other> {
        let field = self.take(2)?;
        Ok(u16::from_be_bytes([field[0], field[1]]))
    }
}

/// Length of a TAP header, and of the frame check sequence that follows the frame.
pub(super) fn tap(bytes: &[u8]) -> Result<(usize, usize), Other> {
    const FCS_TYPE: u16 = 0;
    let mut fields = Fields(bytes);
    fields.take(2)?;
    let length = usize::from(fields.little()?);
    let mut fields = Fields(bytes.get(4..length).ok_or(Other::Malformed)?);
    let mut fcs = 0;
    while !fields.0.is_empty() {
        let (kind, count) = (fields.little()?, usize::from(fields.little()?));
        let value = fields.take(count)?;
        fields.take(count.next_multiple_of(4) - count)?;
        if kind == FCS_TYPE {
            fcs = match value.first() {
                Some(1) => 2,
                Some(2) => 4,
                _ => 0,
            };
        }
    }
    Ok((length, fcs))
}

/// Reads a frame that ends with a check sequence of `fcs` bytes; `missing` bytes were not captured.
pub(super) fn frame<'a>(
    frame: &Frame<'a>,
    bytes: &'a [u8],
    missing: usize,
    fcs: usize,
) -> Result<Link<'a>, Other> {
    let captured = bytes.len().saturating_sub(fcs.saturating_sub(missing));
    let bytes = &bytes[..captured];
    let mut fields = Fields(bytes);
    let control = fields.little()?;
    if control & 7 != DATA {
        return Err(Other::NotIp);
    }
    if control & 1 << 3 != 0 {
        return Err(Other::Tunnel("encrypted IEEE 802.15.4"));
    }
    let is_2015 = control >> 12 & 3 == VERSION_2015;
    let frame_id = if is_2015 && control & 1 << 8 != 0 {
        None
    } else {
        Some(fields.byte()?)
    };
    let modes = [control >> 14 & 3, control >> 10 & 3];
    let is_compressed = control & 1 << 6 != 0;
    let [has_source_pan, has_destination_pan] = pans(is_2015, is_compressed, modes);
    fields.take(if has_destination_pan { 2 } else { 0 })?;
    let destination = address(&mut fields, modes[1])?;
    fields.take(if has_source_pan { 2 } else { 0 })?;
    let source = address(&mut fields, modes[0])?;
    if is_2015 && control & 1 << 9 != 0 {
        skip_elements(&mut fields)?;
    }
    let header = &bytes[..bytes.len() - fields.0.len()];
    Ok(Link {
        packet: Packet::Compressed(Compressed {
            bytes: fields.0,
            missing: missing.saturating_sub(fcs),
            addresses: [source, destination],
        }),
        direction: frame.direction,
        header,
        frame_id,
    })
}

/// Returns whether the source's and the destination's PAN are in the header (IEEE 802.15.4-2015, Table 7-2).
fn pans(is_2015: bool, is_compressed: bool, [source, destination]: [u16; 2]) -> [bool; 2] {
    const EXTENDED: u16 = 3;
    let (has_source, has_destination) = (source != 0, destination != 0);
    if !is_2015 {
        return [
            has_source && !(is_compressed && has_destination),
            has_destination,
        ];
    }
    match (has_source, has_destination) {
        (false, false) => [false, is_compressed],
        (false, true) => [false, !is_compressed],
        (true, false) => [!is_compressed, false],
        (true, true) if [source, destination] == [EXTENDED; 2] => [false, !is_compressed],
        (true, true) => [!is_compressed, true],
    }
}

fn address(fields: &mut Fields<'_>, mode: u16) -> Result<LinkAddress, Other> {
    match mode {
        0 => Ok(LinkAddress::None),
        2 => fields.little().map(LinkAddress::Short),
        3 => {
            let mut octets = [0; 8];
            octets.copy_from_slice(fields.take(8)?);
            octets.reverse();
            Ok(LinkAddress::Extended(octets))
        }
        _ => Err(Other::Malformed),
    }
}

/// Skips header and payload information elements.
fn skip_elements(fields: &mut Fields<'_>) -> Result<(), Other> {
    loop {
        let head = fields.little()?;
        fields.take(usize::from(head & 0x7f))?;
        match head >> 7 & 0xff {
            // Payload elements follow the first of them, the payload follows the second.
            end if end == HEADER_TERMINATION[0] => break,
            end if end == HEADER_TERMINATION[1] => return Ok(()),
            _ if fields.0.is_empty() => return Ok(()),
            _ => {}
        }
    }
    loop {
        let head = fields.little()?;
        fields.take(usize::from(head & 0x7ff))?;
        if head >> 11 & 0xf == PAYLOAD_TERMINATION || fields.0.is_empty() {
            return Ok(());
        }
    }
}
