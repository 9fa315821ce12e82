//! Invalid arguments of `carob lab`, one per kind of error. The crate `lab` tests the others.

use crate::commands::harness::Parts as _;
use crate::lab::NONE;
use crate::process::Scratch;

#[test]
fn misspelled_names_suggest_the_nearest() {
    let folder = Scratch::new();
    for (arguments, expected) in [
        ("thesis/lon", "did you mean \"thesis/long\"?"),
        ("long", "did you mean \"thesis/long\"?"),
        (
            "thesis/long-1c-none-2500 --algorithm cocoa-3",
            "--algorithm cocoa-3: unknown controller \"cocoa-3\"; did you mean \"cocoa-03\"?",
        ),
        (
            "thesis/long-1c-none-2500 --set 'rto_mx=3 s'",
            "did you mean \"transmission.rto_max\"?",
        ),
        (
            "thesis/long-1c-none-2500 --set cc.k_week=1 --algorithm cocoa-03",
            "cocoa-03 has no constant \"k_week\"",
        ),
        ("zzz", "unknown scenario \"zzz\""),
        ("thesis", "\"thesis\" is a study, not a scenario"),
        ("thesis", "thesis/long, thesis/nstart-sweep"),
        ("thesis/zzz*", "unknown scenario \"thesis/zzz*\""),
        (
            "thesis/zzz*",
            "the scenarios of thesis are thesis/exchange-tcp",
        ),
        (
            "thesis/long-1c-none-2500 --set 'donw.rate=3 kbit/s'",
            "unknown key \"donw.rate\"; did you mean \"down.rate\"?",
        ),
        (
            "thesis/long-1c-none-2500 --set 'donw.rate=3 kbit/s'",
            "`carob lab keys`",
        ),
    ] {
        let error = folder.usage_error(&format!("lab run {arguments}"));
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    for verb in ["calibrate", "claims", "judge", "reproduce"] {
        let error = folder.usage_error(&format!("lab {verb} thesis"));
        let studies = format!("`carob-studies {verb}`");
        error.has(&[&studies, "`cargo install --path crates/studies`"]);
    }
}

#[test]
fn invalid_values_name_the_expectation() {
    let folder = Scratch::new();
    for (set, expected) in [
        (
            "down.rate=30",
            "link.down.rate = \"30\": expected a rate with its unit",
        ),
        (
            "rto_max=3 furlongs",
            "expected a time with its unit (us, ms, s, min, h)",
        ),
        ("error=severe", "expected none or low or medium or high"),
        ("down.rate", "write key=value"),
    ] {
        let error = folder.usage_error(&format!("lab run {NONE} --set '{set}'"));
        assert!(error.contains(expected), "{set}: {error}");
        assert!(error.contains(&format!("--set {set}")), "{set}: {error}");
    }
    for arguments in [
        "--seeds 0",
        "--seeds 2 --seed 1",
        "--threads 0",
        "--json --csv",
        "--seeds 99999999999",
    ] {
        folder.usage_error(&format!("lab run {NONE} {arguments}"));
    }
}
