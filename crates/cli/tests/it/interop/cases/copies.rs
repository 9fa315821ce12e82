//! Matching responses to transmissions (draft-ietf-core-fasor-02 4.4, 4.5), with servers that do not implement the draft.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use carob::{Config, CongestionControl};
use carob_cc::controller::{Controller, CopyTagging, Timer};
use carob_cc::evidence::{Answered, Expired, Matched, Start};
use carob_cc::random::Random;
use carob_proto::endpoint::RETRANSMISSION_COUNT;

use crate::installed::Peer;
use crate::interop::bench::Bench;
use crate::interop::clients::Implementation;
use crate::interop::library;
use crate::interop::path::Faults;

const REQUESTS: usize = 40;
/// Doubles with each retransmission, so that a slow peer has about six seconds.
const FIRST_TIMEOUT: carob_cc::time::Duration = carob_cc::time::Duration::from_millis(200);

/// About every fourth request is retransmitted.
const LOSSY: Faults = Faults {
    loss: 150,
    duplication: 50,
    reordering: 0,
};

/// A peer that ignores the option still responds, and the option is not sent again.
pub(crate) fn by_option(bench: &Bench) {
    ask(bench, CopyTagging::EveryCopy);
    let seen = bench.path().to_server();
    let requests = seen.requests();
    let copies = requests.values().flatten();
    let counted = copies.filter(|copy| copy.option(RETRANSMISSION_COUNT).is_some());
    let (counted, all) = (counted.count(), requests.len());
    assert!(
        (1..=5).contains(&counted),
        "{counted} copies of {all} requests, the first of them alone, had the option"
    );
    let seen = bench.path().to_client();
    let replies = seen.replies();
    let mut replies = replies.values().flatten();
    assert!(
        !replies.any(|reply| reply.option(RETRANSMISSION_COUNT).is_some()),
        "the peer knows the option; the documentation says that it does not"
    );
}

/// A peer may respond to any of the tokens of a request's transmissions.
pub(crate) fn by_token(bench: &Bench) {
    let matches = ask(bench, CopyTagging::Token);
    let seen = bench.path().to_server();
    let requests = seen.requests();
    let differ = requests.values().any(|copies| copies.len() > 1);
    assert!(differ, "no request had copies that differ");
    let told = matches
        .iter()
        .any(|(copies, matched)| *copies > 1 && matches!(matched, Matched::Exact(_)));
    assert!(told, "no response identified its transmission: {matches:?}");
    // libcoap executes each transmission; the others repeat the first response.
    let reexecutes = bench.server.whose == Implementation::Of(Peer::Libcoap);
    let seen = bench.path().to_client();
    assert_eq!(
        seen.is_contradictory(),
        reexecutes,
        "the documentation describes other responses to duplicates"
    );
}

/// Sends requests through loss and duplication. Returns the controller's evidence for each response: the number of
/// transmissions, and the one that was matched.
fn ask(bench: &Bench, counting: CopyTagging) -> Vec<(usize, Matched)> {
    bench.interpose(LOSSY);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&heard);
    let choice = CongestionControl::Custom(Arc::new(move |_: SocketAddr| {
        let heard = Arc::clone(&shared);
        Box::new(Counter { counting, heard })
    }));
    let uri = bench.to().uri(bench.server.paths.hello);
    library::get_repeatedly(Config::new().controller(choice), &uri, REQUESTS);
    let heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(heard.len(), REQUESTS);
    heard.clone()
}

/// A controller that requests matching and records the result.
#[derive(Debug)]
struct Counter {
    counting: CopyTagging,
    heard: Arc<Mutex<Vec<(usize, Matched)>>>,
}

impl Controller for Counter {
    fn first_timeout(&mut self, _: &Start<'_>, _: &mut dyn Random) -> Timer {
        FIRST_TIMEOUT.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        expired.timeout.times(2).into()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let copies = answered.transmissions.len();
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push((copies, answered.matched));
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.counting
    }
}
