//! The client: one signed request, one list.
//!
//! Every request: wait for a turn, sign, send, take secrets out of the answer, read it. A refusal
//! for too many calls is waited out and tried again, since it changed nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ccm_core::exec::error::{CallError, Effect, Fault};
use ccm_core::exec::output::Output;
use ccm_core::ids::{JobId, ProjectId};
use ccm_core::observe::Capabilities;
use ccm_core::plan::action::Call;
use jiff::Timestamp;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug, trace, trace_span, warn};

use crate::calls::{Deed, Params, deed};
use crate::command::Command;
use crate::envelope::{self, EnvelopeError, Object};
use crate::error::{Failure, PageLimit, page_size_refused};
use crate::limiter::{Limiter, named_window};
use crate::meter::{Ending, Meter, Unmetered};
use crate::pages::{PageStep, Pages};
use crate::secret::{Credentials, Redactor, quotable};
use crate::sign::signature;
use crate::wire::{
    Method, Runtime, Transport, TransportError, TransportErrorKind, WireRequest, WireResponse,
    between, later,
};

/// How often a list is read before its pages are given up, and how often a 429 is waited out.
const ATTEMPTS: u32 = 4;
/// Longest window that is waited out within a call; longer ones are the caller's to plan.
const PATIENT_WINDOW: Duration = Duration::from_secs(30);
/// Most bytes that the pages of one list may have together: a list that never ends fills no memory.
/// Some 50,000 virtual machines fit into it.
const LONGEST_LIST: usize = 256 << 20;
/// How much of an answer a TRACE line shows.
const TRACED: usize = 2000;

/// Whether requests may ever travel by GET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostPolicy {
    /// Never: keys and signatures stay out of URLs, and out of the logs of what lies between.
    #[default]
    Always,
    /// After something between us and the server refused POST itself (405, 501).
    UnlessRefused,
}

/// How the client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// `projectid` of every list; [`Scope::project`](ccm_core::observe::scope::Scope) goes first.
    pub project: Option<ProjectId>,
    /// Rows a page. Above the server's `default.page.size` it refuses; then its limit is learned.
    pub page_size: u32,
    /// How long a job is followed before its outcome counts as unknown.
    pub job_patience: Duration,
    /// How long a job that the server does not know is asked for after a lost answer.
    pub lost_patience: Duration,
    /// `expires` of a request lies so far ahead. Servers that allow POST only refuse 15 minutes.
    pub request_expiry: Duration,
    /// Most requests at a time.
    pub in_flight: usize,
    /// Whether GET is allowed at all.
    pub post: PostPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            project: None,
            page_size: 500,
            job_patience: Duration::from_mins(10),
            lost_patience: Duration::from_mins(2),
            request_expiry: Duration::from_mins(10),
            in_flight: 16,
            post: PostPolicy::Always,
        }
    }
}

/// A client of one API with one key pair at a time. Share it by `Arc`.
pub struct Client<T, R> {
    access: RwLock<Arc<Access<T>>>,
    pub(crate) runtime: R,
    pub(crate) options: Options,
    pub(crate) limiter: Limiter,
    pub(crate) meter: Arc<dyn Meter>,
    page_size: AtomicU32,
    use_get: AtomicBool,
    learned: Mutex<Learned>,
}

/// How requests get there, and who they come from. A request has one of it from its signature to
/// its answer.
struct Access<T> {
    transport: T,
    credentials: Credentials,
}

/// What the client found out about the server and its own role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    pub(crate) capabilities: Option<(Timestamp, Capabilities)>,
    /// Commands that the role lacks, and since when that is believed.
    pub(crate) denied: BTreeMap<&'static str, Timestamp>,
    /// Jobs that outlived the patience, by the object that they change.
    pub(crate) unfinished: BTreeMap<String, JobId>,
}

/// How an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Xml,
}

impl Format {
    fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Xml => "xml",
        }
    }
}

impl<T: Transport, R: Runtime> Client<T, R> {
    /// A client that has asked nothing yet.
    pub fn new(transport: T, runtime: R, credentials: Credentials, options: Options) -> Self {
        Self {
            access: RwLock::new(Arc::new(Access { transport, credentials })),
            runtime,
            limiter: Limiter::new(options.in_flight),
            meter: Arc::new(Unmetered),
            page_size: AtomicU32::new(options.page_size.max(1)),
            use_get: AtomicBool::new(false),
            learned: Mutex::default(),
            options,
        }
    }

    /// The same, and this one hears of its requests.
    #[must_use]
    pub fn metered(self, meter: Arc<dyn Meter>) -> Self {
        Self { meter, ..self }
    }

    /// Takes over transport and credentials of another client, from the next request on: requests
    /// under way end as they began, and jobs are followed with the new ones. What the role may do is
    /// found out anew.
    pub fn take_over(&self, other: &Self) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = other.access();
        let mut learned = self.learned();
        learned.capabilities = None;
        learned.denied.clear();
    }

    fn access(&self) -> Arc<Access<T>> {
        Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Carries out one call, to the end of its job.
    ///
    /// # Errors
    /// [`CallError`] says whose fault it is and whether anything changed. A lost answer is followed
    /// by the job id that the request bore; if that does not settle it the effect is unknown.
    pub async fn call(&self, call: &Call) -> Result<Output, CallError> {
        match deed(call) {
            Deed::Change(change) => self.change(change).await,
            Deed::Check(check) => self.check_address_unused(check).await,
            Deed::Elsewhere => Err(CallError {
                command: call.command().to_owned(),
                code: None,
                fault: Fault::Bug,
                effect: Effect::No,
                retry_after: None,
                message: "a write to Kubernetes was handed to the CloudStack client; please report"
                    .to_owned(),
            }),
        }
    }

    /// Sends a request and reads the root object of its answer.
    pub(crate) async fn ask(&self, command: Command, params: &Params) -> Result<Object, Failure> {
        self.ask_until(command, params, None).await
    }

    /// As [`Client::ask`], with `expires` as the caller chose it.
    pub(crate) async fn ask_until(
        &self,
        command: Command,
        params: &Params,
        expires: Option<Timestamp>,
    ) -> Result<Object, Failure> {
        let answer = self.exchange(command, params, Format::Json, expires).await?;
        envelope::read(&answer).map_err(Failure::Answer)
    }

    /// Sends a request until it is not throttled.
    pub(crate) async fn exchange(
        &self,
        command: Command,
        params: &Params,
        format: Format,
        expires: Option<Timestamp>,
    ) -> Result<WireResponse, Failure> {
        let mut attempt = 1;
        loop {
            let answer = self.exchange_once(command, params, format, expires).await;
            match &answer {
                // A request with a job id of the caller's is sent once.
                Err(Failure::Throttled(wait, _))
                    if attempt < ATTEMPTS && *wait <= PATIENT_WINDOW && expires.is_none() =>
                {
                    debug!(command = command.name(), ?wait, "throttled");
                    attempt += 1;
                }
                Ok(_) | Err(_) => return answer,
            }
        }
    }

    /// One request, when its turn comes.
    async fn exchange_once(
        &self,
        command: Command,
        params: &Params,
        format: Format,
        expires: Option<Timestamp>,
    ) -> Result<WireResponse, Failure> {
        let asked = self.runtime.now();
        let _turn = self.limiter.admit(&self.runtime).await;
        let admitted = self.runtime.now();
        self.meter.waited(between(asked, admitted));
        if expires.is_some_and(|expires| expires <= admitted) {
            return Err(Failure::Transport(TransportError {
                kind: TransportErrorKind::Timeout,
                sent: false,
                text: "its time was over before it was sent: the server would refuse it".to_owned(),
            }));
        }
        let span = request_span(command, params);
        let delivered = self.deliver(command, params, format, expires);
        let answer = delivered.instrument(span.clone()).await;
        let took = between(admitted, self.runtime.now());
        let ending = Ending::of(command, &answer);
        span.record("outcome", ending.label());
        if ending != Ending::Ok {
            span.record("otel.status_code", "error");
        }
        self.meter.answered(command, ending, took);
        answer
    }

    /// Sends a request that has its turn.
    async fn deliver(
        &self,
        command: Command,
        params: &Params,
        format: Format,
        expires: Option<Timestamp>,
    ) -> Result<WireResponse, Failure> {
        let get = self.use_get.load(Ordering::Relaxed);
        let method = if get { Method::Get } else { Method::Post };
        let mut answer = self.send(command, params, format, expires, method).await?;
        let refused = matches!(answer.status, 405 | 501) && method == Method::Post;
        if refused && self.options.post == PostPolicy::UnlessRefused {
            warn!(status = answer.status, "POST is refused, falling back to GET");
            self.use_get.store(true, Ordering::Relaxed);
            answer = self.send(command, params, format, expires, Method::Get).await?;
        }
        let now = self.runtime.now();
        if answer.status != 429 {
            self.limiter.handle_answer(now);
            return Ok(answer);
        }
        let text = match envelope::read(&answer) {
            Err(EnvelopeError::Server(error)) => error.text,
            Err(EnvelopeError::Unreadable { found, .. }) => found,
            Ok(_) => String::new(),
        };
        let wait = self.limiter.handle_throttled(now, named_window(&text));
        Err(Failure::Throttled(wait, text))
    }

    async fn send(
        &self,
        command: Command,
        params: &Params,
        format: Format,
        expires: Option<Timestamp>,
        method: Method,
    ) -> Result<WireResponse, Failure> {
        let access = self.access();
        let Access { transport, credentials } = &*access;
        let (request, redactor) =
            self.signed(credentials, command, params, format, expires, method);
        trace!(?request, "sending");
        let answer = transport.send(request).await;
        let answer = match answer {
            Ok(mut answer) => {
                answer.body = redactor.clean_body(answer.body);
                answer
            }
            Err(mut error) => {
                error.text = quotable(&redactor.clean_body(error.text), TRACED);
                trace!(command = command.name(), %error, "no answer");
                return Err(Failure::Transport(error));
            }
        };
        let (status, body) = (answer.status, quotable(&answer.body, TRACED));
        trace!(command = command.name(), status, bytes = answer.body.len(), %body, "answer");
        Ok(answer)
    }

    /// The request with everything that each one has, and what hides its secrets later.
    fn signed(
        &self,
        credentials: &Credentials,
        command: Command,
        params: &Params,
        format: Format,
        expires: Option<Timestamp>,
        method: Method,
    ) -> (WireRequest, Redactor) {
        let ahead = later(self.runtime.now(), self.options.request_expiry);
        let expires = expires.unwrap_or(ahead);
        let fixed = [
            ("command", command.name().to_owned()),
            ("response", format.as_str().to_owned()),
            ("apiKey", credentials.api_key().to_owned()),
            ("signatureversion", "3".to_owned()),
            // An offset is needed; `+0000` is the form that servers print themselves.
            ("expires", expires.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()),
        ];
        let mut params: Vec<(String, String)> = fixed
            .into_iter()
            .chain(params.iter().cloned())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let signature = signature(&params, credentials.secret_key());
        let redactor = Redactor::new(credentials, &signature);
        params.push(("signature".to_owned(), signature));
        (WireRequest { method, params }, redactor)
    }

    /// Reads a whole list, or fails: never a part of it.
    pub(crate) async fn list(
        &self,
        command: Command,
        filter: &Params,
        array: &'static str,
    ) -> Result<Vec<Value>, Failure> {
        let mut attempt = 1;
        loop {
            let found = match self.read_pages(command, filter, array).await? {
                Ok(entries) => return Ok(entries),
                Err(found) => found,
            };
            debug!(command = command.name(), found, attempt, "pages do not add up");
            if attempt >= ATTEMPTS {
                return Err(Failure::Pages(found));
            }
            let pause = Duration::from_millis(250) * attempt;
            self.runtime.sleep_until(later(self.runtime.now(), pause)).await;
            attempt += 1;
        }
    }

    /// One attempt at a list: its entries, or why they don't add up.
    async fn read_pages(
        &self,
        command: Command,
        filter: &Params,
        array: &'static str,
    ) -> Result<Result<Vec<Value>, String>, Failure> {
        let mut size = self.page_size.load(Ordering::Relaxed);
        let mut pages = Pages::new(size);
        let (mut page, mut read) = (1, 0);
        loop {
            let answer = match self.ask_page(command, filter, (page, size)).await {
                Ok((answer, length)) => {
                    read += length;
                    answer
                }
                Err(failure) => {
                    size = smaller_page(size, &failure).ok_or(failure)?;
                    debug!(size, "the page was too large");
                    self.page_size.fetch_min(size, Ordering::Relaxed);
                    (page, read, pages) = (1, 0, Pages::new(size));
                    continue;
                }
            };
            match pages.handle_page(&answer, array) {
                PageStep::Next(_) if read > LONGEST_LIST => return Err(too_long_a_list()),
                PageStep::Next(next) => page = next,
                PageStep::Complete(entries) => return Ok(Ok(entries)),
                PageStep::Inconsistent(found) => return Ok(Err(found)),
            }
        }
    }

    /// Asks for a page of a size; its answer, and the length of that in bytes.
    async fn ask_page(
        &self,
        command: Command,
        filter: &Params,
        (page, size): (u32, u32),
    ) -> Result<(Object, usize), Failure> {
        let mut params = filter.clone();
        params.push(("page", page.to_string()));
        params.push(("pagesize", size.to_string()));
        let answer = self.exchange(command, &params, Format::Json, None).await?;
        let length = answer.body.len();
        Ok((envelope::read(&answer).map_err(Failure::Answer)?, length))
    }

    /// What every list has: `listall`, and `projectid` if there is one.
    pub(crate) fn scoped(&self, project: Option<&ProjectId>, filter: Params) -> Params {
        let mut params = filter;
        params.push(("listall", "true".to_owned()));
        let project = project.or(self.options.project.as_ref());
        params.extend(project.map(|project| ("projectid", project.to_string())));
        params
    }

    pub(crate) fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request, in traces: with the job that it begins or asks for.
fn request_span(command: Command, params: &Params) -> Span {
    let command = command.name();
    let job = params.iter().find(|(name, _)| matches!(*name, "customjobid" | "jobid"));
    trace_span!(
        "request",
        otel.name = command,
        otel.kind = "client",
        command,
        job = job.map(|(_, id)| id.as_str()),
        outcome = Empty,
        otel.status_code = Empty,
    )
}

fn too_long_a_list() -> Failure {
    Failure::Transport(TransportError {
        kind: TransportErrorKind::TooLarge,
        sent: true,
        text: format!(
            "the pages of the list have more than {} MiB together, the most that is read; set project-id to a \
             project with fewer objects, or check what answers at api-url",
            LONGEST_LIST >> 20
        ),
    })
}

/// The next size to try if pages of this one are refused, or larger than what is read: what the
/// server names, else half.
fn smaller_page(size: u32, failure: &Failure) -> Option<u32> {
    let unread =
        matches!(failure, Failure::Transport(error) if error.kind == TransportErrorKind::TooLarge);
    let limit =
        if unread { PageLimit::Unnamed } else { failure.server().and_then(page_size_refused)? };
    match limit {
        PageLimit::Named(most) if (1..size).contains(&most) => Some(most),
        PageLimit::Named(_) | PageLimit::Unnamed => Some(size / 2).filter(|half| *half > 0),
    }
}
