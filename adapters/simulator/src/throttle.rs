//! How many calls an account may make: a window that begins with the first call, lasts a fixed time
//! and holds a number of calls of all users and keys of the account together
//! (`ApiRateLimitServiceImpl`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::answer::Answer;
use crate::cloud::Cloud;
use crate::commands::{Call, Entity, Kind, Param, may};
use crate::error::ApiError;
use crate::jobs::success;
use crate::object::Object;
use crate::resources::account::Account;
use crate::table::Key;

/// The open windows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Throttle {
    windows: BTreeMap<Key<Account>, Window>,
}

/// What an account did since its window began.
#[derive(Debug, Clone, Copy)]
struct Window {
    ends: Timestamp,
    issued: u32,
}

pub(crate) const RESET_PARAMS: &[Param] = &[may("account", Kind::Id(Entity::Account))];

impl Window {
    /// Milliseconds until it ends.
    fn rest(self, now: Timestamp) -> i128 {
        self.ends.duration_since(now).as_millis().max(0)
    }
}

impl Throttle {
    fn open(&self, account: Key<Account>, now: Timestamp) -> Option<Window> {
        self.windows.get(&account).copied().filter(|window| now < window.ends)
    }

    fn count(&mut self, account: Key<Account>, now: Timestamp, length: SignedDuration) -> Window {
        let ends = now.checked_add(length).unwrap_or(now);
        let mut window = self.open(account, now).unwrap_or(Window { ends, issued: 0 });
        window.issued += 1;
        self.windows.insert(account, window);
        window
    }
}

/// Counts a call of an account.
///
/// # Errors
/// 429 if that is one too many. Root admins are never counted.
pub(crate) fn count(cloud: &mut Cloud, account: Key<Account>) -> Result<(), ApiError> {
    if !cloud.settings.throttling || cloud.is_root(account) {
        return Ok(());
    }
    let window = cloud.throttle.count(account, cloud.now, cloud.settings.throttling_interval);
    if window.issued <= cloud.settings.throttling_max {
        return Ok(());
    }
    let rest = window.rest(cloud.now);
    Err(ApiError::new(
        429,
        9999,
        format!(
            "The given user has reached his/her account api limit, please retry after [{rest}] ms."
        ),
    ))
}

/// getApiLimit: what is left of the caller's window.
pub(crate) fn limit(cloud: &Cloud, call: &Call) -> Result<Answer, ApiError> {
    let settings = &cloud.settings;
    if !settings.throttling {
        return Err(ApiError::no_api(
            "This api is only available when api.throttling.enabled = true.",
        ));
    }
    let account = cloud.accounts.get(call.caller);
    let window = cloud.throttle.open(call.caller, cloud.now);
    let issued = window.map_or(0, |window| window.issued);
    let rest = window.map_or(0, |window| window.rest(cloud.now));
    let limit = Object::new()
        .maybe("accountid", account.map(|account| account.id.as_str()))
        .maybe("account", account.map(|account| account.name.as_str()))
        .with("apiIssued", issued)
        .with("apiAllowed", settings.throttling_max.saturating_sub(issued))
        .with("expireAfter", u64::try_from(rest).unwrap_or(0));
    Ok(Object::new().with("apilimit", limit).into())
}

/// resetApiLimit: an account's window, or all, begin anew.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all commands")]
pub(crate) fn reset(cloud: &mut Cloud, call: &Call) -> Result<Answer, ApiError> {
    let account = call.params.key::<Account>("account");
    cloud.throttle.windows.retain(|key, _| account.is_some_and(|account| account != *key));
    Ok(success().into())
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    fn throttled() -> Lab {
        let mut lab = Lab::new();
        lab.simulator.set("api.throttling.enabled", "true").unwrap();
        lab
    }

    #[test]
    fn signed_calls_count_twice_from_4_23_on_and_bad_signatures_once() {
        for (release, good, bad) in [("4.23.0", 2, 1), ("4.22.1", 1, 1)] {
            let mut lab = Lab::on(release);
            lab.simulator.set("api.throttling.enabled", "true").unwrap();
            assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 200);
            // A call without key and signature counts once, as that of a session.
            let issued = lab.ask("getApiLimit", &[])["apilimit"]["apiIssued"].as_u64().unwrap();
            assert_eq!(issued, good + 1, "{release}");
            assert_eq!(lab.signed("AKprod", "wrong", "listZones").0, 401);
            let issued = lab.ask("getApiLimit", &[])["apilimit"]["apiIssued"].as_u64().unwrap();
            assert_eq!(issued, good + bad + 2, "{release}");
        }
    }

    #[test]
    fn a_window_holds_25_calls_and_ends_after_its_second() {
        let mut lab = throttled();
        for _ in 0..12 {
            assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 200);
        }
        let (status, body) = lab.signed("AKprod", "SKprod", "listZones");
        assert_eq!(status, 429);
        let error = &body["listzonesresponse"];
        assert_eq!(error["cserrorcode"], 9999);
        assert_eq!(
            error["errortext"],
            "The given user has reached his/her account api limit, please retry after [1000] ms."
        );
        assert_eq!(lab.signed("AKother", "SKother", "listZones").0, 200);
        lab.wait(1);
        assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 200);
    }

    #[test]
    fn calls_with_bad_signatures_use_the_window_up() {
        let mut lab = throttled();
        for _ in 0..25 {
            assert_eq!(lab.signed("AKprod", "wrong", "listZones").0, 401);
        }
        assert_eq!(lab.signed("AKprod", "wrong", "listZones").0, 429);
    }

    #[test]
    fn root_is_never_counted_and_gives_others_a_new_window() {
        let mut lab = throttled();
        for _ in 0..60 {
            assert_eq!(lab.signed("AKroot", "SKroot", "listZones").0, 200);
        }
        for _ in 0..26 {
            lab.signed("AKprod", "wrong", "listZones");
        }
        assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 429);
        lab.by("root").ask("resetApiLimit", &[]);
        assert_eq!(lab.signed("AKprod", "SKprod", "listZones").0, 200);
    }

    #[test]
    fn the_limit_is_told_only_while_there_is_one() {
        let mut lab = Lab::new();
        let refused = lab.refused("getApiLimit", &[]);
        assert_eq!((refused.code, refused.root.as_str()), (432, "errorresponse"));
        let told = |lab: &mut Lab| {
            lab.ask("listCapabilities", &[])["capability"].get("apilimitmax").cloned()
        };
        assert_eq!(told(&mut lab), None);
        assert_eq!(told(&mut throttled()), Some(25.into()));
    }
}
