//! Bodies that are downloaded, and whether each is what the first one was.

use carob::{Code, OptionNumber, Response};

use super::tally::{Ending, Trouble};

/// A body as far as it has arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    code: Option<Code>,
    etag: Option<Vec<u8>>,
    /// Its length as the server told it.
    told: Option<u64>,
    length: u64,
}

impl Body {
    pub(super) fn begin(&mut self, head: &Response, size: Option<u64>) {
        self.code = Some(head.code);
        self.etag = head.options.first(OptionNumber::ETAG).map(<[u8]>::to_vec);
        self.told = size;
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.length += bytes;
    }
}

/// What the bodies of a thread are compared with.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// The latest body that was right: its ETag and its length.
    reference: Option<(Option<Vec<u8>>, u64)>,
    changed: u64,
}

impl Bodies {
    /// How a body that is complete after so many nanoseconds ends its request.
    ///
    /// Its length must be the one the server told; and that of the body before, unless the ETag
    /// says that it is another representation (RFC 7252 5.10.6).
    pub(super) fn judge(&mut self, body: &Body, after: u64) -> Ending {
        let Body {
            code,
            etag,
            told,
            length,
        } = body;
        let Some(code) = *code else {
            return Ending::Failed(Trouble::Body);
        };
        if !code.is_success() {
            return Ending::Refused(code);
        }
        if told.is_some_and(|told| told != *length) {
            return Ending::Failed(Trouble::Body);
        }
        if let Some((of_etag, of_length)) = &self.reference {
            if of_etag != etag {
                self.changed += 1;
            } else if of_length != length {
                return Ending::Failed(Trouble::Differs);
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

    fn body(etag: Option<&[u8]>, told: Option<u64>, length: u64) -> Body {
        let mut head = Response::new(Code::CONTENT);
        if let Some(etag) = etag {
            head.options
                .set(OptionNumber::ETAG, etag)
                .expect("a short option");
        }
        let mut body = Body::default();
        body.begin(&head, told);
        body.add(length);
        body
    }

    fn is_right(bodies: &mut Bodies, body: &Body) -> bool {
        matches!(bodies.judge(body, 1), Ending::Answered { .. })
    }

    #[test]
    fn a_body_of_another_length_is_wrong_unless_its_etag_is_another() {
        let mut bodies = Bodies::default();
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert!(is_right(&mut bodies, &body(Some(b"a"), None, 100)));
        assert_eq!(
            bodies.judge(&body(Some(b"a"), None, 99), 1),
            Ending::Failed(Trouble::Differs)
        );
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
        assert!(is_right(&mut bodies, &body(Some(b"b"), None, 99)));
        assert_eq!(bodies.changed(), 1);
    }

    #[test]
    fn a_body_without_an_etag_must_keep_its_length() {
        let mut bodies = Bodies::default();
        assert!(is_right(&mut bodies, &body(None, None, 5)));
        assert_eq!(
            bodies.judge(&body(None, None, 6), 1),
            Ending::Failed(Trouble::Differs)
        );
    }

    #[test]
    fn a_body_shorter_than_the_server_told_is_wrong() {
        let mut bodies = Bodies::default();
        let short = body(None, Some(10), 9);
        assert_eq!(bodies.judge(&short, 1), Ending::Failed(Trouble::Body));
    }

    #[test]
    fn a_refusal_is_counted_by_its_code() {
        let mut refused = Body::default();
        refused.begin(&Response::new(Code::NOT_FOUND), Some(0));
        assert_eq!(
            Bodies::default().judge(&refused, 1),
            Ending::Refused(Code::NOT_FOUND)
        );
    }
}
