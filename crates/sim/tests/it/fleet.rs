//! A fleet with all faults, and proof that each check can fail.
//!
//! `cargo xtask long fleet` runs it longer and with more endpoints.

use carob_cc::time::Duration;
use carob_sim::random::Probability;

#[path = "../../examples/fleet/simulation/mod.rs"]
mod simulation;

use simulation::ledger::Breach;
use simulation::run;
use simulation::spec::{Clocks, Damage, Defect, FleetRecord, FleetSpec};

/// The command that repeats a run.
fn replay(spec: &FleetSpec) -> String {
    format!(
        "cargo run --release -p carob-sim --example fleet -- --seeds {} --clients {} --servers {} \
         --proxies {} --days {} --gap {}{}{}",
        spec.seed,
        spec.clients,
        spec.servers,
        spec.proxies,
        spec.days,
        spec.gap.as_secs(),
        if spec.tight { " --tight" } else { "" },
        if spec.damage == Damage::Unnoticed {
            " --unnoticed"
        } else {
            ""
        },
    )
}

fn sound(spec: &FleetSpec) -> FleetRecord {
    let record = run(spec);
    let findings = &record.findings;
    assert!(record.is_sound(), "{findings:#?}\n{}", replay(spec));
    record
}

fn fleet(seed: u64) -> FleetSpec {
    let mut spec = FleetSpec::new(seed, 60, 8, 2, 2);
    spec.gap = Duration::from_secs(120);
    spec
}

#[test]
fn slow_two_days_of_faults_violate_no_invariant() {
    let record = sound(&fleet(1));
    // All faults occurred.
    assert!(
        record.answered > 10_000 && record.failed > 500,
        "{record:?}"
    );
    assert!(record.executed > 5_000 && record.notified > 10_000);
    assert!(record.restarts > 20 && record.stalls > 200 && record.suspensions > 50);
    assert!(record.lost > 10_000 && record.duplicated > 5_000 && record.converged > 100);
}

#[test]
fn nightly_tiny_tables_violate_no_invariant() {
    let mut spec = fleet(2);
    spec.tight = true;
    spec.gap = Duration::from_secs(60);
    let record = sound(&spec);
    assert!(record.refused > 0 && record.denied > 1_000, "{record:?}");
}

#[test]
fn nightly_undetected_corruption_ends_requests_within_limits() {
    let mut spec = fleet(3);
    spec.damage = Damage::Unnoticed;
    spec.faults.corruption = Probability::ppm(30_000);
    let record = sound(&spec);
    assert!(record.damaged > 5_000);
}

#[test]
fn slow_the_same_seed_is_the_same_fleet_and_another_is_another() {
    let mut spec = fleet(4);
    spec.days = 1;
    let one = run(&spec).digest;
    assert_eq!(run(&spec).digest, one);
    spec.seed = 5;
    assert_ne!(run(&spec).digest, one);
}

/// A proxy of this fleet restarts after forwarding a request and before the server executes it, then forwards the
/// client's retransmission: the duplicate detection of RFC 7252 4.5 does not survive a restart.
#[test]
fn slow_restarted_proxy_may_forward_a_request_twice() {
    let record = sound(&FleetSpec::drawn(268_989_544));
    assert_eq!(record.executed_anew, 1);
}

#[test]
fn drawn_fleets_repeat_by_seed_and_cover_every_mode() {
    let text = |seed| format!("{:?}", FleetSpec::drawn(seed));
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
    let drawn: Vec<_> = (0..50).map(FleetSpec::drawn).collect();
    assert!(drawn.iter().any(|spec| spec.tight) && !drawn.iter().all(|spec| spec.tight));
    assert!(drawn.iter().any(|spec| spec.damage == Damage::Unnoticed));
    assert!(
        drawn
            .iter()
            .any(|spec| spec.faults.restarts == Duration::ZERO)
    );
    // A run takes seconds at most.
    let requests = |spec: &FleetSpec| u64::from(spec.clients) * 86_400 / spec.gap.as_secs();
    assert!(drawn.iter().all(|spec| requests(spec) <= 31_000));
}

/// The record of a fleet with a defect.
fn found(defect: Defect, change: impl FnOnce(&mut FleetSpec)) -> FleetRecord {
    let mut spec = fleet(6);
    spec.days = 1;
    spec.defect = Some(defect);
    change(&mut spec);
    run(&spec)
}

#[test]
fn nightly_every_check_fails_when_it_should() {
    let plain = |_: &mut FleetSpec| {};
    for (defect, breach) in [
        (Defect::DuplicatesAreNew, Breach::ExecutedTwice),
        (Defect::NoTimers, Breach::NeverEnded),
        (Defect::SilentChanges, Breach::NotConverged),
        (Defect::NeverAnswered, Breach::NotReturned),
        (Defect::TornBodies, Breach::TornBody),
        (Defect::MixedAnswers, Breach::WrongAnswer),
        (Defect::EmptyPromises, Breach::NotExecuted),
        (Defect::EchoedEnds, Breach::EndedTwice),
        (Defect::ObservingPosts, Breach::Refused),
        (Defect::OldStates, Breach::OlderState),
        (Defect::Restless, Breach::Spinning),
        (Defect::Padding, Breach::TooLong),
    ] {
        let record = found(defect, plain);
        assert!(
            record.breaches.contains_key(&breach),
            "{defect:?}: {:?}",
            record.breaches
        );
        assert!(
            record
                .findings
                .iter()
                .any(|finding| finding.breach == breach)
        );
    }
    let record = found(Defect::HalvedLimits, |spec| {
        spec.tight = true;
        spec.gap = Duration::from_secs(30);
    });
    assert!(record.breaches.contains_key(&Breach::LimitExceeded));
}

#[test]
fn nightly_stopped_client_clock_may_execute_a_request_twice() {
    let mut spec = fleet(7);
    (spec.days, spec.gap) = (1, Duration::from_secs(20));
    spec.faults.loss = Probability::ppm(300_000);
    spec.faults.suspensions = Duration::from_secs(600);
    spec.faults.restarts = Duration::ZERO;
    let twice = Breach::ExecutedTwice;
    assert!(!run(&spec).breaches.contains_key(&twice));
    spec.clocks = Clocks::Stop;
    let record = run(&spec);
    assert!(
        record.breaches.contains_key(&Breach::ExecutedTwice),
        "{record:?}"
    );
}
