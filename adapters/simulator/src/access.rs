//! Who may call what: keys, states, roles and limits, in the order in which CloudStack checks them
//! (`ApiServer.verifyRequest`). The order decides which error a caller sees.

use crate::auth::{expires, signed_with};
use crate::cloud::Cloud;
use crate::commands::{Command, Roles};
use crate::error::{ApiError, ErrorRoot};
use crate::message::{Method, Request};
use crate::resources::account::{Account, Project};
use crate::resources::user::{KeyPair, User};
use crate::table::Key;
use crate::throttle;
use crate::versions::Feature;
use crate::world::{Permission, Role, State};

/// Beginnings of the names of commands that change nothing.
const SAFE: &[&str] = &["get", "list", "query", "find"];
/// How far ahead `expires` may lie in POST-only mode.
const LONGEST_EXPIRES: jiff::SignedDuration = jiff::SignedDuration::from_mins(15);

impl Cloud {
    /// Everything up to and including the signature and what the key pair allows.
    pub(crate) fn authorize(
        &mut self,
        request: &Request,
        command: Option<&'static Command>,
    ) -> Result<(Key<User>, &'static Command), ApiError> {
        let Some(command) = command else {
            let root = match request.exact("command") {
                Some(_) => ErrorRoot::Error,
                None => ErrorRoot::Null,
            };
            return Err(ApiError::unauthorized(root));
        };
        self.check_method(request.method, command)?;
        let refused = || ApiError::unauthorized(ErrorRoot::Command);
        let api_key = request.param("apikey").filter(|key| !key.is_empty()).ok_or_else(refused)?;
        if request.param("signature").is_none() || !self.is_in_time(request) {
            return Err(refused());
        }
        let (user, pair) = self.pair_of(api_key).ok_or_else(refused)?;
        if !self.may_log_in(user) || !self.may_use_keys(user) {
            return Err(refused());
        }
        self.check_call(user, command, request.param("projectid"))?;
        if !pair.is_valid(self.now) || !signed_with(request, &pair.secret_key) {
            return Err(refused());
        }
        if self.version.has(Feature::KeyPairs) {
            self.check_pair(user, &pair, command)?;
        }
        Ok((user, command))
    }

    /// POST-only mode lets nothing through that changes something and comes with GET.
    fn check_method(&self, method: Method, command: &Command) -> Result<(), ApiError> {
        let is_safe = SAFE.iter().any(|prefix| command.name.starts_with(prefix));
        match method {
            Method::Get if self.is_post_only() && !is_safe => Err(ApiError::new(
                400,
                9999,
                format!(
                    "State changing command {} needs to be sent using POST request",
                    command.name
                ),
            )),
            Method::Get | Method::Post => Ok(()),
        }
    }

    fn is_post_only(&self) -> bool {
        self.settings.post_only && self.version.has(Feature::PostOnlyMode)
    }

    /// Whether `expires` allows the request now. It is looked at only with `signatureversion=3`,
    /// and then must be there, carry an offset and not lie in the past; there is no leeway, and an
    /// upper bound only in POST-only mode.
    fn is_in_time(&self, request: &Request) -> bool {
        if request.param("signatureversion") != Some("3") {
            return !self.is_post_only();
        }
        expires(request).is_some_and(|expires| {
            let ahead = expires.duration_since(self.now);
            !ahead.is_negative() && (!self.is_post_only() || ahead <= LONGEST_EXPIRES)
        })
    }

    /// The user and key pair of an API key.
    fn pair_of(&self, api_key: &str) -> Option<(Key<User>, KeyPair)> {
        self.users.iter().find_map(|(key, user)| {
            let pair = user.pairs.iter().find(|pair| pair.api_key == api_key)?;
            Some((key, pair.clone()))
        })
    }

    /// Whether a user and its account are enabled.
    pub(crate) fn may_log_in(&self, user: Key<User>) -> bool {
        let user = self.users.get(user);
        let account = user.and_then(|user| self.accounts.get(user.account));
        user.is_some_and(|user| user.state == State::Enabled)
            && account.is_some_and(|account| account.state == State::Enabled)
    }

    /// Whether keys are of use: the user's own word, else its account's, else the setting.
    fn may_use_keys(&self, user: Key<User>) -> bool {
        if !self.version.has(Feature::ApiKeyAccess) {
            return true;
        }
        let user = self.users.get(user);
        let account = user.and_then(|user| self.accounts.get(user.account));
        user.and_then(|user| user.api_key_access)
            .or_else(|| account.and_then(|account| account.api_key_access))
            .unwrap_or(self.settings.api_key_access)
    }

    /// The project, the role, and the limit of calls.
    pub(crate) fn check_call(
        &mut self,
        user: Key<User>,
        command: &Command,
        project: Option<&str>,
    ) -> Result<(), ApiError> {
        let (key, account) =
            self.account_of(user).ok_or_else(|| ApiError::unauthorized(ErrorRoot::Command))?;
        self.check_project(key, account, command, project)?;
        if !allows(account.role, command) {
            return Err(self.forbidden(account, command));
        }
        throttle::count(self, key)
    }

    /// Who is no admin must be a member of the project that a request names.
    fn check_project(
        &self,
        key: Key<Account>,
        account: &Account,
        command: &Command,
        project: Option<&str>,
    ) -> Result<(), ApiError> {
        let named = project.and_then(|id| self.projects.find(id));
        let Some((project, row)) =
            named.and_then(|key: Key<Project>| Some((key, self.projects.get(key)?)))
        else {
            return Ok(());
        };
        match account.role {
            Role::RootAdmin | Role::DomainAdmin => Ok(()),
            Role::User | Role::ProjectKubernetesService if self.is_member(key, project) => Ok(()),
            Role::User | Role::ProjectKubernetesService => {
                Err(ApiError::no_member(command.name, &row.id))
            }
        }
    }

    /// What the key pair allows, and the limit of calls a second time.
    fn check_pair(
        &mut self,
        user: Key<User>,
        pair: &KeyPair,
        command: &Command,
    ) -> Result<(), ApiError> {
        let (key, account) =
            self.account_of(user).ok_or_else(|| ApiError::unauthorized(ErrorRoot::Command))?;
        if pair.permission(command.name) == Permission::Deny {
            return Err(self.forbidden(account, command));
        }
        throttle::count(self, key)
    }

    fn account_of(&self, user: Key<User>) -> Option<(Key<Account>, &Account)> {
        let key = self.users.get(user)?.account;
        Some((key, self.accounts.get(key)?))
    }

    /// A command that the role does not list is 432. One that it denies in so many words was 401:
    /// the restricted role ends with a rule that denies everything.
    fn forbidden(&self, account: &Account, command: &Command) -> ApiError {
        match account.role {
            Role::ProjectKubernetesService if !self.version.has(Feature::DeniedIs432) => {
                ApiError::unauthorized(ErrorRoot::Command)
            }
            Role::User | Role::DomainAdmin | Role::RootAdmin | Role::ProjectKubernetesService => {
                ApiError::forbidden(command.name, &account.name)
            }
        }
    }
}

/// Whether a role allows a command.
pub(crate) fn allows(role: Role, command: &Command) -> bool {
    match command.roles {
        Roles::All => true,
        Roles::User => role != Role::ProjectKubernetesService,
        Roles::Domain => matches!(role, Role::DomainAdmin | Role::RootAdmin),
        Roles::Root => role == Role::RootAdmin,
    }
}

#[cfg(test)]
mod tests {
    use crate::message::Method;
    use crate::testing::Lab;

    /// Status of a signed command of `prod` with these further parameters.
    fn status(lab: &mut Lab, method: Method, command: &str, more: &[(&str, &str)]) -> u16 {
        let mut params = vec![("command", command)];
        params.extend(more);
        lab.signed_with(method, "AKprod", "SKprod", &params).0
    }

    #[test]
    fn expires_counts_with_signature_version_3_only() {
        let mut lab = Lab::new();
        let mut list = |more: &[(&str, &str)]| status(&mut lab, Method::Post, "listZones", more);
        let version = ("signatureVersion", "3");
        assert_eq!(list(&[version, ("expires", "2026-12-01T20:00:00Z")]), 200);
        assert_eq!(list(&[version, ("expires", "2026-12-02T20:00:00+0000")]), 200);
        assert_eq!(list(&[version, ("expires", "2026-12-01T19:59:59Z")]), 401);
        assert_eq!(list(&[version, ("expires", "2026-12-01T20:10:00")]), 401);
        assert_eq!(list(&[version]), 401);
        assert_eq!(list(&[("expires", "2020-01-01T00:00:00Z")]), 200);
    }

    #[test]
    fn post_only_mode_wants_post_for_changes_and_a_near_expires_for_all() {
        let mut lab = Lab::new();
        lab.simulator.set("enforce.post.requests.and.timestamps", "true").unwrap();
        let near = [("signatureVersion", "3"), ("expires", "2026-12-01T20:10:00Z")];
        let far = [("signatureVersion", "3"), ("expires", "2026-12-01T20:20:00Z")];
        assert_eq!(status(&mut lab, Method::Post, "listZones", &[]), 401);
        assert_eq!(status(&mut lab, Method::Post, "listZones", &far), 401);
        assert_eq!(status(&mut lab, Method::Post, "listZones", &near), 200);
        assert_eq!(status(&mut lab, Method::Get, "listZones", &near), 200);
        assert_eq!(status(&mut lab, Method::Get, "listZones", &[]), 401);
        assert_eq!(status(&mut lab, Method::Get, "queryAsyncJobResult", &near), 431);
        let mut change = vec![("command", "createTags")];
        change.extend(near);
        let (code, body) = lab.signed_with(Method::Get, "AKprod", "SKprod", &change);
        assert_eq!(code, 400);
        let error = &body["createtagsresponse"];
        assert_eq!((&error["errorcode"], &error["cserrorcode"]), (&400.into(), &9999.into()));
        assert_eq!(
            error["errortext"],
            "State changing command createTags needs to be sent using POST request"
        );
        assert_eq!(status(&mut lab, Method::Post, "createTags", &near), 431);
    }

    #[test]
    fn there_is_no_post_only_mode_before_4_21() {
        let mut lab = Lab::on("4.20.3");
        lab.simulator.set("enforce.post.requests.and.timestamps", "true").unwrap();
        assert_eq!(status(&mut lab, Method::Post, "listZones", &[]), 200);
        assert_eq!(status(&mut lab, Method::Get, "createTags", &[]), 431);
    }

    #[test]
    fn a_command_that_the_restricted_role_denies_was_401_before_4_18() {
        for (release, code) in [("4.17.2", 401), ("4.18.0", 432)] {
            let mut lab = Lab::on(release);
            assert_eq!(lab.by("kubeadmin").refused("listZones", &[]).code, code, "{release}");
            // A command that a role only does not list has always been 432.
            assert_eq!(lab.by("prod").refused("listHosts", &[]).code, 432, "{release}");
        }
    }

    #[test]
    fn admins_work_for_those_below_them() {
        let mut lab = Lab::new();
        let rule = lab.rule("80", &[]);
        assert_eq!(lab.by("boss").fails("deleteLoadBalancerRule", &[("id", &rule)]).0, 530);
        let job = lab.by("root").run("deleteLoadBalancerRule", &[("id", &rule)]);
        assert_eq!(job["success"], true);
        assert_eq!(lab.by("root").refused("listHosts", &[]).code, 530);
        assert_eq!(lab.by("boss").refused("listHosts", &[]).code, 432);
    }

    #[test]
    fn a_foreign_project_is_told_before_the_signature_is_looked_at() {
        let mut lab = Lab::new();
        let project = lab.id("listProjects", "web");
        let params = [("command", "listNetworks"), ("projectid", project.as_str())];
        assert_eq!(lab.signed_with(Method::Post, "AKother", "wrong", &params).0, 432);
        assert_eq!(lab.signed_with(Method::Post, "AKprod", "wrong", &params).0, 401);
    }
}
