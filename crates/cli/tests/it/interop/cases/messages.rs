//! The message layer: acknowledgements, separate responses, duplicates.

use carob_proto::codec::Type;

use crate::interop::bench::{Bench, SMALL, assert_same};
use crate::interop::path::Faults;
use crate::interop::requests::Ask;
use crate::interop::wire::Side;

/// RFC 7252 4.3: an Empty Confirmable message is rejected with a Reset.
pub(crate) fn ping(bench: &Bench) {
    bench.ping();
}

pub(crate) fn non(bench: &Bench) {
    bench.interpose(Faults::default());
    let answer = bench.succeed(&Ask::get(bench.server.paths.hello).non());
    assert!(answer.payload.len() >= 32, "a short payload");
    let seen = bench.path().to_server();
    assert!(
        seen.count(Type::NonConfirmable) == 1 && seen.count(Type::Confirmable) == 0,
        "the request was not one NON: {seen:?}"
    );
}

/// RFC 7252 5.2.2: separate responses.
pub(crate) fn separate(bench: &Bench) {
    bench.interpose(Faults::default());
    let answer = bench.succeed(&Ask::get(bench.server.paths.slow));
    assert!(!answer.payload.is_empty(), "no payload\n{}", answer.said);
    let to_client = bench.path().to_client();
    assert!(
        to_client.empty_acknowledgements() >= 1,
        "the response was not separate: {to_client:?}"
    );
    // The client may print the response before it acknowledges it.
    bench.until("acknowledgement of the response", |wire| {
        (wire.seen(Side::Client).empty_acknowledgements() >= 1).then_some(())
    });
}

/// RFC 7252 4.5: duplicates are not executed.
pub(crate) fn once(bench: &Bench) {
    let every = Faults {
        duplication: 1000,
        ..Faults::default()
    };
    bench.interpose(every);
    if let Some(counter) = bench.server.paths.counter {
        for _ in 0..3 {
            bench.succeed(&Ask::post(counter).payload(SMALL));
        }
        let count = bench.ask_directly(&Ask::get(counter));
        assert_same(&count.payload, b"3");
    }
    bench.store(SMALL);
    bench.assert_stored(SMALL);
    bench.succeed(&Ask::delete(bench.server.paths.store));
    let seen = bench.path().to_client();
    assert!(seen.duplicated() > 0, "nothing was duplicated");
    if bench.server.has_folder() {
        // Executed twice, PUT would give 2.01 and then 2.04, DELETE 2.02 and then 4.04.
        assert!(
            !seen.is_contradictory(),
            "repeated requests were carried out again: {seen:?}"
        );
    }
}
