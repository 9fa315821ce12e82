//! `carob get`, `put`, `post`, `delete`, `fetch`, `patch`, `ipatch`: requests, their responses
//! shown.

mod files;
pub(super) mod group;

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use carob::client::RequestBuilder;
use carob::{Body, Client, Code, ContentFormat, OptionNumber};
use files::Received;

use super::{client, each};
use crate::args::{
    AskArgs, BodyArgs, ConditionArgs, ContentArgs, MessageArgs, QBlock, RequestArgs, SelectArgs,
    SendArgs, Tag,
};
use crate::failure::{Failure, Kind, Outcome};
use crate::formats;
use crate::monitor::Monitor;
use crate::printer::{self, Answer, Report, Silence, Timing, millis};

/// A request's body and its format, if that is known.
type Content = (Body, Option<ContentFormat>);

/// `get` and `delete`: without a body, for one resource after the other.
pub(crate) async fn ask(method: Code, args: AskArgs) -> Result<Outcome, Failure> {
    let AskArgs { uris, request } = args;
    if uris.len() > 1 && request.body.output.is_some() {
        let failure = Failure::new(
            Kind::Usage,
            "-o takes the body of one URI, and several are given",
        );
        return Err(failure.hint("use -o with one URI at a time"));
    }
    super::check_keys(&request.network, request.message.proxy.as_deref(), &uris)?;
    let requests = Requests::open(method, &request)?;
    each(&uris, !request.show.json, async |uri| {
        requests.run(uri, None).await
    })
    .await
}

/// `put`, `post`, `fetch`, `patch` and `ipatch`: with a body.
pub(crate) async fn send(method: Code, args: SendArgs) -> Result<Outcome, Failure> {
    let SendArgs {
        uri,
        payload,
        content,
        request,
    } = args;
    let uris = std::slice::from_ref(&uri);
    super::check_keys(&request.network, request.message.proxy.as_deref(), uris)?;
    let whole = request.message.q_block != QBlock::Off;
    let content = read(payload, content, whole).await?;
    Requests::open(method, &request)?
        .run(&uri, Some(content))
        .await
}

/// Opens a request's body; `whole` reads it into memory.
async fn read(payload: Option<String>, args: ContentArgs, whole: bool) -> Result<Content, Failure> {
    let ContentArgs { file, mut format } = args;
    let body = match (payload, file) {
        (Some(text), _) if text == "-" => files::stdin(whole).await?,
        (Some(text), _) => text.into_bytes().into(),
        (None, Some(path)) => {
            format = format.or_else(|| formats::of_file(&path));
            files::body(&path, whole).await?
        }
        (None, None) => Body::from(Vec::new()),
    };
    Ok((body, format))
}

/// Adds the options that choose a representation.
pub(super) fn select(mut request: RequestBuilder, args: &SelectArgs) -> RequestBuilder {
    if let Some(accept) = args.accept {
        request = request.accept(accept);
    }
    for option in &args.option {
        request = request.option(option.number, option.value.clone());
    }
    request
}

fn under(mut request: RequestBuilder, args: &ConditionArgs) -> RequestBuilder {
    for etag in &args.etag {
        request = request.option(OptionNumber::ETAG, etag.clone());
    }
    for tag in &args.if_match {
        let value = match tag {
            // An empty value matches any state (RFC 7252 5.10.8.1).
            Tag::Any => Vec::new(),
            Tag::Is(etag) => etag.clone(),
        };
        request = request.option(OptionNumber::IF_MATCH, value);
    }
    if args.if_none_match {
        request = request.option(OptionNumber::IF_NONE_MATCH, Vec::new());
    }
    request
}

/// Requests of one command: they share an endpoint.
struct Requests<'a> {
    method: Code,
    args: &'a RequestArgs,
    client: Client,
    monitor: Monitor,
}

impl<'a> Requests<'a> {
    fn open(method: Code, args: &'a RequestArgs) -> Result<Self, Failure> {
        let monitor = Monitor::open(&args.watch)?;
        let client = client(&args.network, &monitor, |settings| {
            super::to_groups(super::messages(settings, &args.message), &args.group)
        })?;
        Ok(Self {
            method,
            args,
            client,
            monitor,
        })
    }

    /// Makes a request and shows its response, or why there is none.
    async fn run(&self, uri: &str, content: Option<Content>) -> Result<Outcome, Failure> {
        self.monitor.reset_tally();
        let began = Instant::now();
        if group::is_group(uri) {
            let request = self.request(uri, content);
            let outcome = group::run(uri, request, self.args, &self.monitor).await;
            if let (Err(failure), true) = (&outcome, self.args.show.json) {
                printer::failure_json(uri, failure, None);
            }
            return outcome;
        }
        let failure = match self.exchange(uri, content).await {
            Ok(reply) => match self.show(uri, began, reply).await {
                Ok(outcome) => return Ok(outcome),
                Err(failure) => failure,
            },
            Err(carob::Error::ResponseSuppressed { peer, after }) => {
                self.show_silence(uri, began, peer, after).await;
                return Ok(Outcome::Done);
            }
            Err(error) => {
                let peer = self.args.message.proxy.as_deref().unwrap_or(uri);
                Failure::of_request(error, peer, self.monitor.counters().of_last)
            }
        };
        self.monitor.end_wait();
        // The caller prints the failure itself.
        let timing = self.timing(began).await;
        if self.args.show.json {
            printer::failure_json(uri, &failure, timing.as_ref());
        } else if let Some(timing) = timing {
            printer::timing(&timing);
        }
        Err(failure)
    }

    async fn exchange(
        &self,
        uri: &str,
        content: Option<Content>,
    ) -> Result<Received, carob::Error> {
        let request = self.request(uri, content);
        match self.args.message.q_block {
            QBlock::Off => request.send_streaming().await.map(Received::from),
            // A streamed body goes by Block2.
            QBlock::Auto | QBlock::On => request.send().await.map(Received::from),
        }
    }

    fn request(&self, uri: &str, content: Option<Content>) -> RequestBuilder {
        let RequestArgs {
            select: selected,
            condition,
            network,
            message: message @ MessageArgs { non, q_block, .. },
            ..
        } = self.args;
        let mut request = self.client.request(self.method, uri).confirmable(!non);
        request = request.q_block((*q_block).into());
        if let Some((body, format)) = content {
            request = request.body(body);
            if let Some(format) = format {
                request = request.content_format(format);
            }
        }
        if let Some(deadline) = network.deadline {
            request = request.timeout(deadline);
        }
        request = super::via(request, message);
        if let Some(unwanted) = self.args.no_response {
            request = request.no_response(unwanted);
        }
        under(select(request, selected), condition)
    }

    /// Shows that no response came, as it was to be.
    async fn show_silence(&self, uri: &str, began: Instant, peer: SocketAddr, after: Duration) {
        let timing = self.timing(began).await;
        let counters = self.monitor.counters();
        if self.args.show.json {
            printer::json(&Silence {
                uri,
                unanswered: true,
                peer: peer.to_string(),
                after_ms: millis(after),
                attempts: counters.copies,
                retransmissions: counters.retransmissions,
                timing,
            });
            return;
        }
        if self.args.watch.verbose == 0 {
            printer::remark("no response, as No-Response requested");
        }
        if let Some(timing) = timing {
            printer::timing(&timing);
        }
    }

    async fn show(&self, uri: &str, began: Instant, reply: Received) -> Result<Outcome, Failure> {
        let RequestArgs {
            body: BodyArgs { output, raw },
            show,
            watch,
            ..
        } = self.args;
        let Received {
            head,
            peer,
            after,
            mut body,
        } = reply;
        let outcome = Outcome::Response(head.code);
        let file = output.as_deref().filter(|_| head.code.is_success());
        if show.json {
            let answer = Answer::new(&head, peer);
            let answer = match file {
                Some(path) => answer.with_file(path, files::to_file(path, &mut body).await?),
                None => answer.with_payload(&files::whole(&mut body).await?),
            };
            let counters = self.monitor.counters();
            printer::json(&Report {
                uri,
                answer,
                rtt_ms: millis(after),
                attempts: counters.copies,
                retransmissions: counters.retransmissions,
                timing: self.timing(began).await,
            });
            return Ok(outcome);
        }
        if head.code.is_success() && head.code != Code::CONTINUE {
            let bytes = match file {
                Some(path) => files::to_file(path, &mut body).await?,
                None if std::io::stdout().is_terminal() && !raw => {
                    let bytes = files::whole(&mut body).await?;
                    printer::body(&head, &bytes);
                    bytes.len() as u64
                }
                None => files::to_stdout(&mut body).await?,
            };
            // With `-v` the code has been seen.
            if bytes == 0 && watch.verbose == 0 {
                printer::code(&head);
            }
        } else if head.code == Code::CONTINUE {
            let text = format!(
                "{uri}: the server answered a complete request with {:?}",
                head.code
            );
            return Err(Failure::new(Kind::Refused, text));
        } else {
            let text = files::whole(&mut body).await?;
            printer::refusal(uri, &head, &text);
        }
        if let Some(timing) = self.timing(began).await {
            printer::timing(&timing);
        }
        Ok(outcome)
    }

    /// Timing of the exchange, if `--timing` is set.
    async fn timing(&self, began: Instant) -> Option<Timing> {
        if !self.args.show.timing {
            return None;
        }
        let total = began.elapsed();
        Some(self.monitor.timing(&self.client, total).await)
    }
}
