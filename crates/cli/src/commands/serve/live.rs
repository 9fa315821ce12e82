//! Demo resources that change, and one that comes in several formats.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carob::server::{Notifier, Refusal, Request, Resource, ServerBuilder, get};
use carob::{Code, ContentFormat, Response};
use minicbor::Encoder;
use serde_json::json;

use crate::clock::Utc;

/// Interval at which `/time` changes.
const TICK: Duration = Duration::from_secs(1);
/// Max-Age of a notified time. An observer without a newer notification registers again after it.
const TIME_MAX_AGE: Duration = Duration::from_secs(5);
/// The records of `/sensors`: name, unit, value (RFC 8428).
const SENSORS: [(&str, &str, f64); 2] = [("temperature", "Cel", 21.5), ("humidity", "%RH", 48.0)];
const SENSORS_BASE: &str = "urn:dev:ow:10e2073a01080063:";

/// Adds them, and starts the clock behind `/time` on the current runtime.
pub(super) fn resources(builder: ServerBuilder) -> ServerBuilder {
    builder
        .resource(
            "/time",
            time().attribute("title", "the time in UTC, each second"),
        )
        .resource(
            "/count",
            count().attribute("title", "a number; POST adds to it"),
        )
        .resource(
            "/sensors",
            sensors().attribute("title", "two readings, as JSON or CBOR"),
        )
}

fn time() -> Resource {
    let changes = Notifier::new();
    let resource = get(|_: Request| async {
        let now = format!("{}\n", Utc::now());
        Response::content(ContentFormat::TEXT_PLAIN, now).with_max_age(TIME_MAX_AGE)
    });
    let resource = resource.observable(&changes);
    tokio::spawn(tick(changes));
    resource
}

/// Notifies observers when a second begins.
async fn tick(changes: Notifier) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let to_next = Duration::from_nanos(1_000_000_000 - u64::from(now.subsec_nanos()));
    let mut seconds = tokio::time::interval_at(tokio::time::Instant::now() + to_next, TICK);
    loop {
        seconds.tick().await;
        changes.changed();
    }
}

fn count() -> Resource {
    let count = Arc::new(AtomicI64::new(0));
    let changes = Notifier::new();
    let (shown, told) = (Arc::clone(&count), changes.clone());
    get(move |_: Request| {
        let now = shown.load(Ordering::Relaxed);
        async move { number(Code::CONTENT, now) }
    })
    .post(move |request: Request| {
        let answer = summand(request.payload()).map(|summand| {
            let before = count.fetch_add(summand, Ordering::Relaxed);
            told.changed();
            number(Code::CHANGED, before.wrapping_add(summand))
        });
        let wrong = || Refusal::bad_request("expected a whole number, or nothing");
        async move { answer.ok_or_else(wrong) }
    })
    .observable(&changes)
}

fn number(code: Code, number: i64) -> Response {
    let mut response = Response::content(ContentFormat::TEXT_PLAIN, number.to_string());
    response.code = code;
    response
}

/// The summand of a POST: 1 without a payload.
fn summand(payload: &[u8]) -> Option<i64> {
    match core::str::from_utf8(payload).ok()?.trim() {
        "" => Some(1),
        text => text.parse().ok(),
    }
}

fn sensors() -> Resource {
    let (json, cbor) = (sensors_json(), sensors_cbor());
    let in_format = |format, bytes: &Vec<u8>| Response::content(format, bytes.clone());
    let mut resource = Resource::new();
    for (format, bytes) in [
        (ContentFormat::SENML_JSON, &json),
        (ContentFormat::SENML_CBOR, &cbor),
        (ContentFormat::JSON, &json),
        (ContentFormat::CBOR, &cbor),
    ] {
        resource = resource.fixed_as(format, in_format(format, bytes));
    }
    resource
}

fn sensors_json() -> Vec<u8> {
    let records = SENSORS
        .iter()
        .enumerate()
        .map(|(place, (name, unit, value))| {
            let mut record = json!({ "n": name, "u": unit, "v": value });
            if place == 0 {
                record["bn"] = SENSORS_BASE.into();
            }
            record
        });
    let records: Vec<_> = records.collect();
    serde_json::to_vec(&records).expect("text keys and finite numbers")
}

/// The same with the labels of RFC 8428 6: bn -2, n 0, u 1, v 2.
fn sensors_cbor() -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    let written = (|| {
        encoder.array(SENSORS.len() as u64)?;
        for (place, (name, unit, value)) in SENSORS.iter().enumerate() {
            encoder.map(if place == 0 { 4 } else { 3 })?;
            if place == 0 {
                encoder.i8(-2)?.str(SENSORS_BASE)?;
            }
            encoder
                .u8(0)?
                .str(name)?
                .u8(1)?
                .str(unit)?
                .u8(2)?
                .f64(*value)?;
        }
        Ok::<(), minicbor::encode::Error<core::convert::Infallible>>(())
    })();
    written.expect("writing to memory does not fail");
    encoder.into_writer()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn post_adds_one_by_default() {
        assert_eq!(summand(b""), Some(1));
        assert_eq!(summand(b" -7\n"), Some(-7));
        assert_eq!(summand(b"seven"), None);
        assert_eq!(summand(b"\xff"), None);
        assert_eq!(summand(b"9223372036854775808"), None);
    }

    #[test]
    fn sensors_are_equal_in_json_and_cbor() {
        let json: serde_json::Value = serde_json::from_slice(&sensors_json()).unwrap();
        let cbor = sensors_cbor();
        let mut decoder = minicbor::Decoder::new(&cbor);
        let records = json.as_array().unwrap();
        assert_eq!(decoder.array().unwrap(), Some(records.len() as u64));
        for record in records {
            let members = decoder.map().unwrap().unwrap();
            assert_eq!(members, record.as_object().unwrap().len() as u64);
            for _ in 0..members {
                match decoder.i8().unwrap() {
                    -2 => assert_eq!(record["bn"], decoder.str().unwrap()),
                    0 => assert_eq!(record["n"], decoder.str().unwrap()),
                    1 => assert_eq!(record["u"], decoder.str().unwrap()),
                    2 => assert_eq!(record["v"], decoder.f64().unwrap()),
                    other => panic!("label {other}"),
                }
            }
        }
        assert_eq!(decoder.position(), cbor.len());
    }
}
