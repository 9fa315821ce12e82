//! Too much at once: what gets no place is answered early and cheaply, nobody takes all places, and
//! the last ones are for those who have shown where they are.
//!
//! In this order, before anything else is looked at: how often its source asks (4.29, RFC 8516), room
//! in the tables (5.03), the source's share of them (5.03), and, where a table is nearly full, whether
//! the source has shown where it is (4.01 with Echo, RFC 9175). None of these allocates, or keeps
//! anything of who is refused.

use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use super::challenge::AMPLIFICATION_FACTOR;
use super::response::address;
use crate::codec::{
    Code, EncodeError, MessageId, MessageView, NoResponse, OptionNumber, TokenView, Type, Writer,
};
use crate::counters::Refusal;
use crate::dedup::Repeatable;
use crate::echo::ECHO_BYTES;
use crate::endpoint::Endpoint;
use crate::rates::Pace;

/// What a refusal says besides its code.
#[derive(Clone, Copy)]
pub(super) enum Why<'a> {
    /// In words.
    Text(&'a str),
    /// After how many seconds it is worth trying again.
    Later(u32),
    /// What is to be given back.
    Show([u8; ECHO_BYTES]),
}

/// When requests that must not be carried out twice were challenged of which nothing is kept. Clients
/// repeat a challenged request by themselves, with an Echo value: one without may be a late copy of
/// the first, until none can be on its way any more.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint) struct Unkept {
    since: Instant,
    until: Instant,
}

impl Endpoint {
    /// How a source keeps to the rate it may ask at.
    pub(in crate::endpoint) fn pace(&mut self, now: Instant, from: SocketAddr) -> Pace {
        if self.rates.is_none() {
            return Pace::Within;
        }
        let shown = self.has_shown(now, from);
        let source = self.sharing.source(from);
        let rates = self.rates.as_mut();
        rates.map_or(Pace::Within, |rates| rates.ask(now, source, shown))
    }

    /// Whether a source has shown where it is.
    pub fn has_shown(&self, now: Instant, source: SocketAddr) -> bool {
        self.is_reliable() || self.config.secured || self.validated.contains(now, source)
    }

    /// Whether there is a place for a request; if not, it is refused.
    pub(super) fn admits(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        repeatable: Repeatable,
    ) -> bool {
        let limits = &self.config.limits;
        let lasts = repeatable == Repeatable::No && !self.is_reliable();
        let bytes = self.incoming.bytes() + request.as_bytes().len();
        if !lasts && self.incoming.is_calm() && bytes <= limits.incoming_bytes {
            return true;
        }
        let (held, sharing) = (self.incoming.len(), self.sharing);
        if lasts {
            self.dedup.expire(now);
        }
        let lasting = self.dedup.lasting();
        let full = held >= limits.incoming
            || bytes > limits.incoming_bytes
            || (lasts && lasting >= limits.lasting);
        let taken = || {
            let source = sharing.source(from);
            lasts && self.dedup.lasting_of(source) >= sharing.most(limits.lasting)
        };
        if full || taken() || self.incoming.has_its_share(from) {
            self.overloaded(now, from, request);
            return false;
        }
        let pressed = sharing.is_pressed(held, limits.incoming)
            || (lasts && sharing.is_pressed(lasting, limits.lasting));
        if !pressed {
            return true;
        }
        let rest = lasts && self.asks_for_rest(request);
        let unkept = lasts && !rest && self.may_be_unkept(now, from);
        if (self.has_shown(now, from) && !unkept) || self.shows(now, from, request) {
            return true;
        }
        if rest {
            self.overloaded(now, from, request);
        } else {
            self.ask_to_show(now, from, request, repeatable);
        }
        false
    }

    /// Whether a request shows where its source is.
    fn shows(&mut self, now: Instant, from: SocketAddr, request: &MessageView<'_>) -> bool {
        let value = request.option(OptionNumber::ECHO);
        value.is_some_and(|value| self.take_echo(now, from, value))
    }

    /// Has a source show where it is before anything is kept of its request.
    fn ask_to_show(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        repeatable: Repeatable,
    ) {
        self.counters.refused(Refusal::Challenge);
        if repeatable == Repeatable::No {
            let since = match self.unkept {
                Some(unkept) if now < unkept.until => unkept.since,
                _ => now,
            };
            let until = now + self.lifetimes.exchange;
            self.unkept = Some(Unkept { since, until });
        }
        let lifetime = self.config.echo_lifetime;
        let value = (self.challenges).value(&mut *self.random, now, lifetime, from);
        self.refuse(now, from, request, Code::UNAUTHORIZED, Why::Show(value));
    }

    /// Whether a request is for a later block of a response: of one that was carried out, which it is not
    /// itself. It is never challenged, because a proxy passes a challenge on, and who hears of it repeats
    /// the request that was.
    pub(super) fn asks_for_rest(&self, request: &MessageView<'_>) -> bool {
        let block = |number| self.block_option(request, number);
        matches!(block(OptionNumber::BLOCK1), Ok(None))
            && matches!(block(OptionNumber::BLOCK2), Ok(Some(block)) if block.number > 0)
    }

    /// Whether a request that must not be carried out twice, and carries no Echo value, may be a late
    /// copy of one that was challenged and of which nothing is kept. Who had shown where it is before
    /// was not challenged.
    pub(super) fn may_be_unkept(&self, now: Instant, from: SocketAddr) -> bool {
        let Some(unkept) = self.unkept.filter(|unkept| now < unkept.until) else {
            return false;
        };
        let before = |at: Instant| at < unkept.since;
        let shown = self.validated.since(now, from).is_some_and(before);
        !shown && !self.is_reliable() && !self.config.secured
    }

    /// Answers a request that gets no place: 5.03 to a CON, nothing to a NON.
    pub(super) fn overloaded(&mut self, now: Instant, from: SocketAddr, request: &MessageView<'_>) {
        self.counters.refused(Refusal::Overload);
        if request.kind() == Type::Confirmable || self.is_reliable() {
            let later = Why::Later(self.retry_after(from, request.message_id()));
            self.refuse(now, from, request, Code::SERVICE_UNAVAILABLE, later);
        } else {
            self.counters.requests.add(request.code(), None);
        }
    }

    /// After how many seconds a request is worth trying again; not the same for all.
    fn retry_after(&self, from: SocketAddr, id: MessageId) -> u32 {
        let least = u32::try_from(self.config.limits.retry_after).unwrap_or(u32::MAX);
        let spread = u64::from(id.0) + u64::from(from.port());
        least.saturating_add((spread % (u64::from(least) + 1)) as u32)
    }

    /// When this request is worth trying again, if it is answered 5.03; not the same for all.
    pub fn retry_time(&self, id: crate::endpoint::IncomingId) -> Duration {
        let slot = self.incoming.find(id);
        let seconds = slot.map_or(0, |slot| self.retry_after(slot.from, slot.id));
        Duration::from_secs(u64::from(seconds))
    }

    /// Refuses a request of a source that asks too often, if that is worth a message.
    pub(in crate::endpoint) fn slow_down(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        pace: Pace,
    ) {
        self.counters.refused(Refusal::Rate);
        let wait = match pace {
            Pace::Beyond(wait) => Some(wait),
            // Over a connection every request is answered (RFC 8323 3.3).
            _ if self.is_reliable() => Some(Duration::from_secs(1)),
            _ => None,
        };
        let Some(wait) = wait else {
            return self.counters.requests.add(request.code(), None);
        };
        if request.kind() == Type::Confirmable || self.is_reliable() {
            let seconds = wait.as_micros().div_ceil(1_000_000).max(1);
            let later = Why::Later(u32::try_from(seconds).unwrap_or(u32::MAX));
            self.refuse(now, from, request, Code::TOO_MANY_REQUESTS, later);
        } else {
            self.counters.requests.add(request.code(), None);
        }
    }

    /// Answers a request at once and remembers nothing. Its answer to a NON is a NON with the same
    /// Message ID: as long as its sender uses none twice, neither do we.
    pub(super) fn refuse(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        code: Code,
        why: Why<'_>,
    ) {
        let (token, id) = (request.token(), request.message_id());
        let kind = if request.kind() == Type::NonConfirmable && !self.is_reliable() {
            Type::NonConfirmable
        } else {
            Type::Acknowledgement
        };
        let unwanted = request.uint_option(OptionNumber::NO_RESPONSE);
        if unwanted.is_some_and(|value| NoResponse::from_value(value).suppresses(code)) {
            self.counters.requests.add(request.code(), None);
            if !self.is_reliable() && kind == Type::Acknowledgement {
                self.send_empty(now, from, Type::Acknowledgement, id);
            }
            return;
        }
        self.counters.requests.add(request.code(), Some(code));
        if self.exceeds_tokens(request) {
            return self.refuse_token(now, from, request, (kind, code));
        }
        let count = self.count_to_echo(request);
        let mut scratch = core::mem::take(&mut self.scratch);
        if let Ok(mut length) = write_refusal(&mut scratch, token, code, why) {
            address(&mut scratch, kind, id);
            length = super::response::echo(&mut scratch, length, count);
            let fits = length <= AMPLIFICATION_FACTOR * request.as_bytes().len();
            if !fits
                && self.is_limited(now, from)
                && let Ok(plain) = write_refusal(&mut scratch, token, code, Why::Text(""))
            {
                self.counters.refused(Refusal::Amplification);
                address(&mut scratch, kind, id);
                length = plain;
            }
            self.transmit(now, from, &scratch[..length]);
        }
        self.scratch = scratch;
    }
}

fn write_refusal(
    buffer: &mut [u8],
    token: TokenView<'_>,
    code: Code,
    why: Why<'_>,
) -> Result<usize, EncodeError> {
    let mut writer = Writer::new(buffer, Type::Acknowledgement, code, MessageId(0), &token)?;
    match why {
        Why::Text("") => {}
        Why::Text(text) => writer.payload(text.as_bytes())?,
        Why::Later(seconds) => writer.uint_option(OptionNumber::MAX_AGE, seconds)?,
        Why::Show(value) => writer.option(OptionNumber::ECHO, &value)?,
    }
    Ok(writer.finish())
}
