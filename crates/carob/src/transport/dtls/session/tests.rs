//! A client's session and a server's end, without sockets.

use std::net::SocketAddr;

use super::*;
use crate::transport::dtls::dimpl_config::ServerSide;
use crate::transport::dtls::dimpl_session::DimplSession;
use crate::transport::dtls::hello::{Cookies, Hello};
use crate::{ClientTls, Identity, PreSharedKey, PskStore};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5684);
const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 2], 40_000);

fn seconds(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

/// A server's end, as the driver has it.
struct Server {
    cookies: Cookies,
    side: ServerSide,
    session: Option<DimplSession>,
    messages: Vec<Vec<u8>>,
    closed: bool,
}

impl Server {
    fn new(keys: &str, identity: Option<&Identity>) -> Self {
        let keys = (!keys.is_empty()).then(|| PskStore::from_text(keys).expect("keys"));
        Self {
            cookies: Cookies::new([3; 32]),
            side: ServerSide::new(keys, None, identity, false).expect("it can be used"),
            session: None,
            messages: Vec::new(),
            closed: false,
        }
    }

    /// Handles a datagram; returns the replies.
    fn take(&mut self, now: Instant, datagram: &[u8]) -> Vec<Vec<u8>> {
        let std = at(*ZERO, now);
        let client = SocketAddr::from(CLIENT);
        match (&mut self.session, Hello::read(datagram)) {
            (None, Some(hello)) => {
                let Some(cookie) = self.cookies.check(now, client, None, &hello) else {
                    let asked = self.cookies.ask(now, client, None, &hello);
                    return asked.into_iter().collect();
                };
                match self.side.accept(std, &hello, cookie) {
                    Ok(session) => self.session = Some(session),
                    Err(_) => return vec![record::alert(hello.sequence() + 1, 40)],
                }
            }
            // The driver answers these as it answers the first of them.
            (Some(_), Some(hello)) if hello.cookie().is_none() => return Vec::new(),
            (Some(session), _) => {
                if let Err(broken) = session.receive(std, datagram) {
                    let alert = broken.alert().map(|number| session.alert(number));
                    return alert.into_iter().collect();
                }
            }
            (None, None) => {}
        }
        self.leaving()
    }

    fn leaving(&mut self) -> Vec<Vec<u8>> {
        let (mut buffer, mut leaving) = (vec![0; SESSION_BUFFER], Vec::new());
        let Some(session) = &mut self.session else {
            return leaving;
        };
        loop {
            match session.poll(&mut buffer) {
                DtlsOutput::Datagram { bytes, .. } => leaving.push(bytes.to_vec()),
                DtlsOutput::Message(bytes) => self.messages.push(bytes.to_vec()),
                DtlsOutput::NotProven => leaving.push(session.alert(51)),
                DtlsOutput::Closed => self.closed = true,
                DtlsOutput::Nothing => return leaving,
                _ => {}
            }
        }
    }

    fn say(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let session = self.session.as_mut().expect("a session");
        session.send(message).expect("it is live");
        self.leaving()
    }
}

static ZERO: std::sync::LazyLock<std::time::Instant> =
    std::sync::LazyLock::new(std::time::Instant::now);

/// Drains a client's session; returns its other outputs and its datagrams.
fn drain(session: &mut ClientSession) -> (Vec<String>, Vec<(Vec<u8>, bool)>) {
    let mut buffer = vec![0; SESSION_BUFFER];
    let (mut said, mut datagrams) = (Vec::new(), Vec::new());
    loop {
        match session.poll(&mut buffer) {
            SessionOutput::Nothing => return (said, datagrams),
            SessionOutput::Datagram { bytes, fresh } => datagrams.push((bytes.to_vec(), fresh)),
            SessionOutput::Message(bytes) => said.push(String::from_utf8_lossy(bytes).into()),
            other => said.push(format!("{other:?}")),
        }
    }
}

/// Lets both ends talk, without the datagrams whose numbers `lost` has, and with a copy of the
/// present flight after each second of silence; returns the client's result.
fn talk(session: &mut ClientSession, server: &mut Server, lost: &[usize]) -> Vec<String> {
    let (mut said, mut now, mut number) = (Vec::new(), 0, 0);
    let mut passes = || {
        number += 1;
        !lost.contains(&(number - 1))
    };
    loop {
        let (heard, leaving) = drain(session);
        said.extend(heard);
        let arriving: Vec<_> = leaving.into_iter().filter(|_| passes()).collect();
        let answers = (arriving.iter()).flat_map(|(bytes, _)| server.take(seconds(now), bytes));
        let answers: Vec<_> = answers.filter(|_| passes()).collect();
        for answer in &answers {
            session.receive(seconds(now), answer);
        }
        if answers.is_empty() {
            if !said.is_empty() || now > 9 {
                return said;
            }
            now += 1;
            session.resend(seconds(now));
        }
    }
}

fn with_key(key: &str) -> ClientSessions {
    let key = PreSharedKey::from_text("device", key).expect("a key");
    ClientSessions::new(&Credential::PreSharedKey(key)).expect("it can be used")
}

/// A self-signed server identity for these names with this issuer name, and client sessions that trust it.
fn certified(names: &[&str], itself: &str) -> (Identity, ClientSessions) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = rcgen::CertificateParams::new(names).expect("names");
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, itself);
    let own = rcgen::KeyPair::generate().expect("a key");
    let made = params.self_signed(&own).expect("a certificate");
    let (chain, key) = (made.pem(), own.serialize_pem());
    let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("an identity");
    let tls = ClientTls::new().trust_pem(chain.as_bytes()).expect("roots");
    let sessions = ClientSessions::new(&Credential::Certificates(tls));
    (identity, sessions.expect("it can be used"))
}

fn connect(sessions: &ClientSessions, name: Option<&str>) -> ClientSession {
    let name = name.map(Arc::from);
    let session = sessions.connect(seconds(0), SERVER.into(), name.as_ref());
    session.expect("it begins")
}

#[test]
fn psk_session_carries_messages_both_ways_until_closed() {
    let (sessions, mut server) = (with_key("secret"), Server::new("device:secret", None));
    let mut session = connect(&sessions, None);
    assert!(session.send(b"too early").is_err());
    assert_eq!(talk(&mut session, &mut server, &[]), ["Connected"]);
    assert_eq!(session.suite(), Some("TLS_PSK_WITH_AES_128_CCM_8"));
    session.send(b"one").expect("it is live");
    session.send(b"two").expect("it is live");
    assert_eq!(talk(&mut session, &mut server, &[]), [""; 0]);
    assert_eq!(server.messages, [b"one", b"two"]);
    for datagram in server.say(b"three") {
        assert!(!datagram.windows(5).any(|part| part == b"three"));
        session.receive(seconds(9), &datagram);
    }
    assert_eq!(drain(&mut session).0, ["three"]);
    let mut other = connect(&sessions, None);
    let mut closing = Server::new("device:secret", None);
    assert_eq!(talk(&mut other, &mut closing, &[]), ["Connected"]);
    closing.session.as_mut().expect("a session").close();
    for datagram in closing.leaving() {
        other.receive(seconds(9), &datagram);
    }
    assert_eq!(drain(&mut other).0, ["Ended(Closed)"]);
    assert!(other.send(b"too late").is_err());
    session.close();
    let (said, leaving) = drain(&mut session);
    assert_eq!((said.len(), leaving.len()), (0, 1), "close_notify");
    server.take(seconds(9), &leaving[0].0);
    assert!(server.closed);
}

#[test]
fn server_certificate_matches_name_or_address() {
    for (names, name) in [
        (&["example.org"][..], Some("example.org")),
        (&["192.0.2.1"], None),
    ] {
        let (identity, sessions) = certified(names, "a");
        let mut server = Server::new("", Some(&identity));
        let mut session = connect(&sessions, name);
        assert_eq!(talk(&mut session, &mut server, &[]), ["Connected"]);
        let suite = session.suite().expect("it is chosen");
        assert_eq!(suite, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    }
}

#[test]
fn untrusted_or_misnamed_certificate_is_refused_with_alert() {
    let (identity, sessions) = certified(&["example.org"], "a");
    let (_, of_another) = certified(&["example.org"], "b");
    for (sessions, name, alert) in [
        (&sessions, Some("example.com"), 42),
        (&sessions, None, 42),
        (&of_another, Some("example.org"), 48),
    ] {
        let mut server = Server::new("", Some(&identity));
        let mut session = connect(sessions, name);
        let said = loop {
            let (said, leaving) = drain(&mut session);
            if said.is_empty() {
                for (bytes, _) in leaving {
                    for answer in server.take(seconds(0), &bytes) {
                        session.receive(seconds(0), &answer);
                    }
                }
                continue;
            }
            let last = leaving.last().expect("an alert");
            assert_eq!(last.0.last(), Some(&alert), "{name:?}: {last:x?}");
            break said;
        };
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("Failed(NotTrusted"), "{said:?}");
        assert_eq!(drain(&mut session).0.len(), 0, "it is said once");
    }
}

#[test]
fn slow_any_lost_handshake_datagram_is_recovered() {
    let (identity, by_certificate) = certified(&["192.0.2.1"], "a");
    for (sessions, keys, identity) in [
        (with_key("secret"), "device:secret", None),
        (by_certificate, "", Some(&identity)),
    ] {
        for lost in 0..12 {
            let mut server = Server::new(keys, identity);
            let mut session = connect(&sessions, None);
            let said = talk(&mut session, &mut server, &[lost]);
            assert_eq!(said, ["Connected"], "without number {lost}");
            session.send(b"one").expect("it is live");
            talk(&mut session, &mut server, &[]);
            assert_eq!(server.messages, [b"one"], "without number {lost}");
        }
    }
}

#[test]
fn flight_is_fresh_once_and_retransmissions_are_counted() {
    let mut session = connect(&with_key("secret"), None);
    let fresh = |session: &mut ClientSession| {
        let (_, datagrams) = drain(session);
        datagrams
            .iter()
            .map(|(_, fresh)| *fresh)
            .collect::<Vec<_>>()
    };
    assert_eq!(fresh(&mut session), [true]);
    for second in [1, 3] {
        session.resend(seconds(second));
        assert_eq!(fresh(&mut session), [false]);
    }
    let copies = 3;
    assert_eq!(session.given_up(), HandshakeError::NoAnswer { copies });
    session.receive(seconds(4), b"no record at all");
    assert_eq!(session.given_up(), HandshakeError::NoAnswer { copies });
}

#[test]
fn wrong_key_is_reported_after_alert_or_silence() {
    let wrong = HandshakeError::WrongKey {
        identity: "device".to_owned(),
    };
    let mut server = Server::new("device:secret", None);
    let mut session = connect(&with_key("guessed"), None);
    let said = talk(&mut session, &mut server, &[]);
    assert_eq!(said, [format!("Failed({wrong:?})")]);
    let mut server = Server::new("device:secret", None);
    let mut session = connect(&with_key("guessed"), None);
    for _ in 0..3 {
        assert_ne!(session.given_up(), wrong);
        for (bytes, _) in drain(&mut session).1 {
            for answer in server.take(seconds(0), &bytes) {
                session.receive(seconds(0), &answer);
            }
        }
    }
    assert_eq!(session.given_up(), wrong);
}

#[test]
fn missing_common_cipher_suite_is_reported() {
    let (identity, _) = certified(&["192.0.2.1"], "a");
    let mut server = Server::new("", Some(&identity));
    let mut session = connect(&with_key("secret"), None);
    let said = talk(&mut session, &mut server, &[]);
    assert_eq!(said, ["Failed(NoCommonSuite)"]);
}
