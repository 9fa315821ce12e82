//! Downloaded bodies, and the comparison of each with the first.

use carob::{Code, OptionNumber, Response};

use super::counters::{Ending, ErrorKind};

/// A body as far as it has arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    code: Option<Code>,
    etag: Option<Vec<u8>>,
    /// Length announced by the server (Size2), in bytes.
    announced: Option<u64>,
    length: u64,
}

impl Body {
    pub(super) fn begin(&mut self, head: &Response, size: Option<u64>) {
        self.code = Some(head.code);
        self.etag = head.options.first(OptionNumber::ETAG).map(<[u8]>::to_vec);
        self.announced = size;
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.length += bytes;
    }
}

/// Checks of the bodies of a thread against a reference.
#[derive(Debug, Default)]
pub(super) struct BodyChecker {
    /// The latest body that was right: its ETag and its length.
    reference: Option<(Option<Vec<u8>>, u64)>,
    changed: u64,
}

impl BodyChecker {
    /// The ending of a request whose body is complete after `after` nanoseconds.
    ///
    /// The length must be the announced one, and the previous body's, unless
    /// the ETag differs (RFC 7252 5.10.6).
    pub(super) fn judge(&mut self, body: &Body, after: u64) -> Ending {
        let Body {
            code,
            etag,
            announced,
            length,
        } = body;
        let Some(code) = *code else {
            return Ending::Failed(ErrorKind::Body);
        };
        if !code.is_success() {
            return Ending::Refused(code);
        }
        if announced.is_some_and(|announced| announced != *length) {
            return Ending::Failed(ErrorKind::Body);
        }
        if let Some((of_etag, of_length)) = &self.reference {
            if of_etag != etag {
                self.changed += 1;
            } else if of_length != length {
                return Ending::Failed(ErrorKind::Differs);
            }
        }
        if self.reference.as_ref().is_none_or(|(of, _)| of != etag) {
            self.reference = Some((etag.clone(), *length));
        }
        Ending::Answered {
            code,
            after,
            bytes: *length,
        }
    }

    /// Times that a body was of another representation than the one before.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(etag: Option<&[u8]>, announced: Option<u64>, length: u64) -> Body {
        let mut head = Response::new(Code::CONTENT);
        if let Some(etag) = etag {
            head.options
                .set(OptionNumber::ETAG, etag)
                .expect("a short option");
        }
        let mut body = Body::default();
        body.begin(&head, announced);
        body.add(length);
        body
    }

    fn is_right(bodies: &mut BodyChecker, body: &Body) -> bool {
        matches!(bodies.judge(body, 1), Ending::Answered { .. })
    }

    #[test]
    fn a_body_of_another_length_is_wrong_unless_its_etag_is_another() {
        let mut bodies = BodyChecker::default();
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert_eq!(
            bodies.judge(&body(Some(b"a"), None, 99), 1),
            Ending::Failed(ErrorKind::Differs)
        );
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
    }

    #[test]
    fn body_without_etag_must_have_constant_length() {
        let mut bodies = BodyChecker::default();
        assert!(is_right(&mut bodies, &body(None, None, 5)));
        assert_eq!(
            bodies.judge(&body(None, None, 6), 1),
            Ending::Failed(ErrorKind::Differs)
        );
    }

    #[test]
    fn body_shorter_than_announced_is_wrong() {
        let mut bodies = BodyChecker::default();
        let short = body(None, Some(10), 9);
        assert_eq!(bodies.judge(&short, 1), Ending::Failed(ErrorKind::Body));
    }

    #[test]
    fn a_refusal_is_counted_by_its_code() {
        let mut refused = Body::default();
        refused.begin(&Response::new(Code::NOT_FOUND), Some(0));
        assert_eq!(
            BodyChecker::default().judge(&refused, 1),
            Ending::Refused(Code::NOT_FOUND)
        );
    }
}
