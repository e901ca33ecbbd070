//! Who may read what: as the API server says (delegated authentication and authorisation).
//!
//! 1. A certificate or a bearer token is somebody's, or the answer is 401, whatever the path. Who
//!    shows neither is `system:anonymous`.
//! 2. Paths on the allow list are everybody's; `system:masters` may do everything.
//! 3. Else the API server is asked whether the caller may use the path. Answers are believed for
//!    some seconds.
//!
//! A process that may not ask (the stock role of Go controllers does not grant it) serves the
//! allow list alone, and says so once.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::http::HeaderMap;
use ccm_core::exec::error::{CallError, Fault};
use ccm_kubernetes::live::review::{Reviewer, User};
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::warn;

use super::vouchers::{Sources, Vouched, Vouchers};
use crate::cli::{Beliefs, VoucherOptions};

/// Most answers that are kept.
const KEPT: usize = 1000;

/// Answers questions about callers.
pub trait Reviews: Send + Sync + 'static {
    /// What the cluster says of who vouches for callers that show a certificate.
    fn vouchers(&self) -> impl Future<Output = Result<BTreeMap<String, String>, CallError>> + Send;

    /// Whose a bearer token is; `None` if it is nobody's.
    fn user(&self, token: &str) -> impl Future<Output = Result<Option<User>, CallError>> + Send;

    /// Whether a caller may use a path.
    fn may(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> impl Future<Output = Result<bool, CallError>> + Send;
}

/// The API servers that are asked; usually the same one twice.
pub struct Delegated {
    /// Of `--authentication-kubeconfig`.
    pub authentication: Reviewer,
    /// Of `--authorization-kubeconfig`.
    pub authorization: Reviewer,
}

impl Reviews for Delegated {
    async fn vouchers(&self) -> Result<BTreeMap<String, String>, CallError> {
        self.authentication.vouchers().await
    }

    async fn user(&self, token: &str) -> Result<Option<User>, CallError> {
        self.authentication.user(token).await
    }

    async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, CallError> {
        self.authorization.may(user, verb, path).await
    }
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    /// The token is nobody's: 401.
    Unknown,
    /// That user may not: 403.
    Forbidden {
        user: String,
    },
    /// Nobody could be asked: 503.
    Unclear,
}

/// What a caller shows of himself.
pub(super) struct Caller<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) certificates: &'a [CertificateDer<'static>],
    pub(super) headers: &'a HeaderMap,
}

/// Decides who may read what.
pub(super) struct Access<R> {
    reviews: R,
    always_allow: Vec<String>,
    beliefs: Beliefs,
    vouchers: RwLock<Arc<Vouchers>>,
    users: Memory<[u8; 32], Option<User>>,
    verdicts: Memory<Question, bool>,
    complained: AtomicBool,
}

/// Caller, verb and path.
type Question = (User, String, String);

impl<R: Reviews> Access<R> {
    pub(super) fn new(reviews: R, always_allow: Vec<String>, beliefs: Beliefs) -> Self {
        Self {
            reviews,
            always_allow,
            beliefs,
            vouchers: RwLock::default(),
            users: Memory::default(),
            verdicts: Memory::default(),
            complained: AtomicBool::new(false),
        }
    }

    /// Keeps up to date who vouches for callers, without end.
    pub(super) async fn follow_vouchers(&self, options: &VoucherOptions, every: Duration) {
        let (mut known, mut complaint) = (None, None);
        loop {
            let cluster = self.look_up_vouchers(options, &mut complaint).await;
            // What the cluster said last holds while it can't be asked.
            if cluster.is_some() || known.is_none() {
                let sources = Sources::read(options, &cluster.unwrap_or_default());
                if known.as_ref() != Some(&sources) {
                    let vouchers = Arc::new(Vouchers::new(&sources));
                    *self.vouchers.write().unwrap_or_else(PoisonError::into_inner) = vouchers;
                    known = Some(sources);
                }
            }
            tokio::time::sleep(every).await;
        }
    }

    /// What the cluster says; `None` if it can't be asked, which is told once.
    async fn look_up_vouchers(
        &self,
        options: &VoucherOptions,
        complaint: &mut Option<String>,
    ) -> Option<BTreeMap<String, String>> {
        if !options.need_lookup() {
            return Some(BTreeMap::new());
        }
        let found = self.reviews.vouchers().await;
        let error = found.as_ref().err().map(ToString::to_string);
        if let Some(error) = &error
            && complaint.as_ref() != Some(error)
        {
            warn!(error, "who vouches for certificates of callers is not known");
        }
        *complaint = error;
        found.ok()
    }

    pub(super) async fn admit(&self, caller: &Caller<'_>, verb: &str, path: &str) -> Admission {
        let Caller { token, certificates, headers } = caller;
        let vouchers = Arc::clone(&self.vouchers.read().unwrap_or_else(PoisonError::into_inner));
        let public = self.always_allow.iter().any(|allowed| matches(allowed, path));
        let user = match (vouchers.vouch(certificates, headers), token) {
            (Vouched::For(user), _) => user,
            (Vouched::Nobody, None) => anonymous(),
            (Vouched::Stranger, None) => return Admission::Unknown,
            (Vouched::Nobody | Vouched::Stranger, Some(token)) => match self.user(token).await {
                Ok(Some(user)) => user,
                Ok(None) => return Admission::Unknown,
                Err(_) if public => anonymous(),
                Err(error) if error.fault == Fault::Permission => return Admission::Unknown,
                Err(_) => return Admission::Unclear,
            },
        };
        if public || user.groups.iter().any(|group| group == "system:masters") {
            return Admission::Admitted;
        }
        match self.may(&user, verb, path).await {
            Ok(true) => Admission::Admitted,
            Ok(false) => Admission::Forbidden { user: user.name },
            Err(error) if error.fault == Fault::Permission => {
                Admission::Forbidden { user: user.name }
            }
            Err(_) => Admission::Unclear,
        }
    }

    async fn user(&self, token: &str) -> Result<Option<User>, CallError> {
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.users.recall(&key) {
            return Ok(known);
        }
        let user = self.reviews.user(token).await.inspect_err(|error| self.complain(error))?;
        self.users.keep(key, user.clone(), self.beliefs.user);
        Ok(user)
    }

    async fn may(&self, user: &User, verb: &str, path: &str) -> Result<bool, CallError> {
        let question = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(known) = self.verdicts.recall(&question) {
            return Ok(known);
        }
        let asked = self.reviews.may(user, verb, path).await;
        let allowed = asked.inspect_err(|error| self.complain(error))?;
        let belief = if allowed { self.beliefs.allowed } else { self.beliefs.denied };
        self.verdicts.keep(question, allowed, belief);
        Ok(allowed)
    }

    /// Once for all: it would come with every scrape.
    fn complain(&self, error: &CallError) {
        if error.fault == Fault::Permission && !self.complained.swap(true, Ordering::Relaxed) {
            warn!(
                %error,
                paths = self.always_allow.join(","),
                "callers can't be checked, so only these paths are served; grant this service \
                 account the ClusterRole system:auth-delegator"
            );
        }
    }
}

fn anonymous() -> User {
    User {
        name: "system:anonymous".to_owned(),
        groups: vec!["system:unauthenticated".to_owned()],
        ..User::default()
    }
}

/// Whether an entry of the allow list means a path.
fn matches(allowed: &str, path: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => allowed == path,
    }
}

/// Answers, each until its time is over.
struct Memory<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Memory<K, V> {
    fn recall(&self, key: &K) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, value)| value.clone())
    }

    fn keep(&self, key: K, value: V, belief: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= KEPT {
            known.retain(|_, (until, _)| now < *until);
        }
        if known.len() < KEPT {
            known.insert(key, (now + belief, value));
        }
    }
}
