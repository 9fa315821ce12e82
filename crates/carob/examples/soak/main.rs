//! Load generator of the soak test: Confirmable requests at full rate, non-idempotent POSTs, block-wise bodies, separate
//! responses and observers, with datagram loss in both directions.
//!
//! `cargo run --release -p carob --example soak -- --server 127.0.0.1:5683 --seconds 60` runs against a `carob serve`.
//! `cargo xtask long soak` starts both, monitors the server and evaluates the results. The program prints a JSON object
//! every few seconds; the last one has `"over":true`.
//!
//! Datagrams are dropped between this program's engines and its sockets, in both directions. To the server this looks
//! like a lossy network, without a relay that would limit the rate.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it loads a real server, in real time, and prints what came of it"
)]

mod load;
mod port;
mod witnesses;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::endpoint::Failure;
use serde_json::{Value, json};

use load::Load;
use port::{Exchanged, Traffic};
use witnesses::Witnesses;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Interval of publishing counts to the printing thread.
const PUBLISH: Duration = Duration::from_millis(100);
/// Interval of printing.
const PRINT: Duration = Duration::from_secs(5);
/// Minimum interval of the witnesses' turns; notifications wait in the sockets meanwhile.
const WITNESS: Duration = Duration::from_millis(5);
/// Time for pending requests after the load: MAX_TRANSMIT_WAIT (RFC 7252 4.8.2) plus slack.
const ENDING: Duration = Duration::from_secs(120);
/// Time for all observers to converge. Those that missed the last notification register again after Max-Age (RFC 7641 3.3.1).
const CONVERGING: Duration = Duration::from_secs(180);
/// Time for observers to deregister.
const GOODBYE: Duration = Duration::from_secs(60);

const HELP: &str = "soak --server ADDRESS [--seconds N] [--observers N] [--posts PER_SECOND] \
    [--loss SHARE] [--seed N]";

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    server: SocketAddr,
    /// Duration of the load.
    load: Duration,
    observers: usize,
    /// POSTs per second, each of which changes the observed resource.
    posts: u32,
    /// Loss probability per datagram and direction.
    loss: f64,
    seed: u64,
}

/// Counts.
#[derive(Clone, Debug, Default)]
struct Tally {
    answered: u64,
    /// Requests without a response to any transmission.
    timed_out: u64,
    /// Other failures and wrong responses, by description.
    wrong: BTreeMap<String, u64>,
    longest_gap_us: u64,
    posts: u64,
    posts_failed: u64,
    /// Sums returned to more than one POST.
    told_twice: u64,
    /// All sums up to this one were returned to a POST.
    told_all_to: i64,
    /// The final sum.
    sum: Option<i64>,
    bodies: u64,
    separate: u64,
    observers: u64,
    ended: u64,
    notifications: u64,
    /// Notifications of an older state than the last one.
    backwards: u64,
    stale: u64,
    traffic: Traffic,
    exchanged: Exchanged,
}

/// Limit of distinct descriptions in `wrong`; further ones are counted as `other`.
const WRONG_KINDS: usize = 16;

impl Tally {
    fn wrong(&mut self, what: String) {
        let known = self.wrong.len() < WRONG_KINDS || self.wrong.contains_key(&what);
        let what = if known { what } else { "other".to_owned() };
        *self.wrong.entry(what).or_default() += 1;
    }

    fn failed(&mut self, failure: Failure) {
        // NoResponse: acknowledged, but every transmission of the response was lost.
        match failure {
            Failure::TimedOut { .. } | Failure::NoResponse => self.timed_out += 1,
            other => self.wrong(other.to_string()),
        }
    }

    fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.timed_out += other.timed_out;
        for (what, count) in &other.wrong {
            *self.wrong.entry(what.clone()).or_default() += count;
        }
        self.longest_gap_us = self.longest_gap_us.max(other.longest_gap_us);
        self.posts += other.posts;
        self.posts_failed += other.posts_failed;
        self.told_twice += other.told_twice;
        self.told_all_to = self.told_all_to.max(other.told_all_to);
        self.sum = self.sum.or(other.sum);
        self.bodies += other.bodies;
        self.separate += other.separate;
        self.observers += other.observers;
        self.ended += other.ended;
        self.notifications += other.notifications;
        self.backwards += other.backwards;
        self.stale += other.stale;
        self.traffic.add(&other.traffic);
        self.exchanged.add(other.exchanged);
    }

    fn json(&self, seconds: f64) -> Value {
        json!({
            "seconds": seconds,
            "answered": self.answered,
            "timed_out": self.timed_out,
            "wrong": self.wrong,
            "longest_gap_ms": self.longest_gap_us as f64 / 1e3,
            "posts": self.posts,
            "posts_failed": self.posts_failed,
            "told_twice": self.told_twice,
            "told_all_to": self.told_all_to,
            "sum": self.sum,
            "bodies": self.bodies,
            "separate": self.separate,
            "observers": self.observers,
            "ended": self.ended,
            "notifications": self.notifications,
            "backwards": self.backwards,
            "stale": self.stale,
            "sent": self.traffic.sent,
            "sent_lost": self.traffic.sent_lost,
            "received": self.traffic.received,
            "received_lost": self.traffic.received_lost,
            "exchanges": self.exchanged.begun,
            "retransmissions": self.exchanged.retransmissions,
            "exchanges_timed_out": self.exchanged.timed_out,
        })
    }
}

/// Clock of the engines.
#[derive(Clone, Copy)]
struct Clock(std::time::Instant);

impl Clock {
    fn now(self) -> Instant {
        Instant::from_micros(self.0.elapsed().as_micros() as u64)
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

fn plan() -> Result<Plan, Error> {
    let mut plan = Plan {
        server: "127.0.0.1:5683".parse()?,
        load: Duration::from_secs(60),
        observers: 1_000,
        posts: 20,
        loss: 0.01,
        seed: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} needs a value\n{HELP}"))?;
        match word.as_str() {
            "--server" => plan.server = value.parse()?,
            "--seconds" => plan.load = Duration::from_secs(value.parse()?),
            "--observers" => plan.observers = value.parse()?,
            "--posts" => plan.posts = value.parse::<u32>()?.clamp(1, 1_000_000),
            "--loss" => plan.loss = value.parse::<f64>()?.clamp(0.0, 1.0),
            "--seed" => plan.seed = value.parse()?,
            _ => return Err(format!("unknown option {word}\n{HELP}").into()),
        }
    }
    Ok(plan)
}

/// Results passed to the printing thread.
#[derive(Default)]
struct Shared {
    load: Mutex<Tally>,
    witnesses: Mutex<Tally>,
    /// Set when all requests of the load have ended.
    load_over: AtomicBool,
    over: AtomicBool,
}

fn publish(place: &Mutex<Tally>, tally: Tally) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = tally;
}

fn read(place: &Mutex<Tally>) -> Tally {
    place.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn main() -> Result<(), Error> {
    let plan = plan()?;
    let clock = Clock(std::time::Instant::now());
    let shared = Shared::default();
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            let ran = run_load(plan, clock, &shared);
            shared.load_over.store(true, Ordering::Release);
            ran
        });
        let witnesses = scope.spawn(|| {
            let ran = run_witnesses(plan, clock, &shared);
            shared.over.store(true, Ordering::Release);
            ran
        });
        let mut next = PRINT;
        while !shared.over.load(Ordering::Acquire) {
            if clock.elapsed() >= next {
                next += PRINT;
                println!("{}", sum(&shared).json(clock.elapsed().as_secs_f64()));
            }
            thread::sleep(PUBLISH);
        }
        load.join().map_err(|_| "the load panicked")??;
        let mut last = witnesses.join().map_err(|_| "a witness panicked")??;
        let of = sum(&shared).json(clock.elapsed().as_secs_f64());
        if let (Some(last), Value::Object(of)) = (last.as_object_mut(), of) {
            last.extend(of);
        }
        println!("{last}");
        Ok(())
    })
}

fn sum(shared: &Shared) -> Tally {
    let mut tally = read(&shared.load);
    tally.add(&read(&shared.witnesses));
    tally
}

fn run_load(plan: Plan, clock: Clock, shared: &Shared) -> Result<(), Error> {
    let mut load = Load::new(plan, clock.now())?;
    let mut published = Duration::ZERO;
    let mut asking = true;
    while asking || (load.under_way() > 0 && clock.elapsed() < plan.load + ENDING) {
        if asking && clock.elapsed() >= plan.load {
            asking = false;
            load.stop_timing();
        }
        load.turn(clock.now(), asking)?;
        if !asking {
            load.stop_timing();
        }
        if clock.elapsed() >= published + PUBLISH {
            published = clock.elapsed();
            publish(&shared.load, load.tally());
        }
    }
    let mut tally = load.tally();
    for _ in 0..load.under_way() {
        tally.wrong("still under way".to_owned());
    }
    publish(&shared.load, tally);
    Ok(())
}

/// Runs the witnesses; returns the final results.
fn run_witnesses(plan: Plan, clock: Clock, shared: &Shared) -> Result<Value, Error> {
    let mut all = Witnesses::new(plan, clock.now())?;
    let mut published = Duration::ZERO;
    let mut turn = |all: &mut Witnesses, asking: bool| -> Result<(), Error> {
        let began = clock.elapsed();
        all.turn(clock.now(), asking)?;
        if began >= published + PUBLISH {
            published = began;
            publish(&shared.witnesses, all.tally());
        }
        thread::sleep(WITNESS.saturating_sub(clock.elapsed().saturating_sub(began)));
        Ok(())
    };
    while clock.elapsed() < plan.load {
        turn(&mut all, true)?;
    }
    // Wait for pending requests of all threads.
    let until = plan.load + ENDING;
    while (all.under_way() > 0 || !shared.load_over.load(Ordering::Acquire))
        && clock.elapsed() < until
    {
        turn(&mut all, false)?;
    }
    let unfinished = all.under_way();
    all.request_sum(clock.now());
    while all.under_way() > unfinished && clock.elapsed() < until + ENDING {
        turn(&mut all, false)?;
    }
    // Wait until observers have the final sum.
    let sum = all.tally().sum.unwrap_or(-1);
    let began = clock.elapsed();
    let (told, at_once) = all.converged(sum);
    while all.converged(sum).1 < plan.observers && clock.elapsed() < began + CONVERGING {
        turn(&mut all, false)?;
    }
    let converging = clock.elapsed().saturating_sub(began);
    let (_, converged) = all.converged(sum);
    let ended = all.tally().ended;
    all.goodbye(clock.now());
    let began = clock.elapsed();
    // Each deregistration is answered or times out.
    while all.exchanges() > 0 && clock.elapsed() < began + GOODBYE {
        turn(&mut all, false)?;
    }
    let mut tally = all.tally();
    tally.ended = ended;
    for _ in 0..unfinished {
        tally.wrong("still under way".to_owned());
    }
    publish(&shared.witnesses, tally);
    Ok(json!({
        "over": true,
        "observers_told": told,
        "observers_knowing_at_once": at_once,
        "observers_knowing": converged,
        "converging_s": converging.as_secs_f64(),
    }))
}
