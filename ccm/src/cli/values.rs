//! Values of flags, as Go programs take them.

use std::path::PathBuf;
use std::time::Duration;

use ccm_core::ids::ServiceKey;
use ccm_core::permission::Task;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::config::duration;

/// A boolean.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected `true` or `false`".to_owned()),
    }
}

/// A duration; `0` needs no unit.
pub(super) fn go_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    duration(text)
        .ok_or_else(|| "expected a duration, for example `50ms`, `10s` or `1h30m`".to_owned())
}

/// A duration that somebody waits out.
pub(super) fn short_duration(text: &str) -> Result<Duration, String> {
    let found = go_duration(text)?;
    if found <= Duration::from_mins(1) { Ok(found) } else { Err("expected at most 1m".to_owned()) }
}

/// A Service.
pub(super) fn service_key(text: &str) -> Result<ServiceKey, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(ServiceKey::new(namespace, name))
        }
        Some(_) | None => Err("expected NAMESPACE/NAME, for example `shop/web`".to_owned()),
    }
}

/// What credentials are to do.
pub(super) fn task() -> impl TypedValueParser<Value = Task> {
    let names = PossibleValuesParser::new(Task::ALL.map(Task::name));
    names.try_map(|name| {
        let known = Task::ALL.into_iter().find(|task| task.name() == name);
        known.ok_or("expected one of the possible values")
    })
}

/// A path, unless it is empty: that counts as not set.
pub(super) fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_with_their_namespace() {
        assert_eq!(service_key("shop/web"), Ok(ServiceKey::new("shop", "web")));
        for text in ["web", "/web", "shop/", "a/b/c"] {
            assert!(service_key(text).is_err(), "{text}");
        }
    }

    #[test]
    fn booleans_and_durations_are_read_as_go_reads_them() {
        for (text, value) in [("true", true), ("T", true), ("1", true), ("False", false)] {
            assert_eq!(switch(text), Ok(value), "{text}");
        }
        assert!(switch("yes").is_err() && switch("").is_err());
        assert_eq!(go_duration("0"), Ok(Duration::ZERO));
        assert_eq!(go_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(go_duration("10").is_err());
        assert_eq!(short_duration("1m"), Ok(Duration::from_mins(1)));
        assert!(short_duration("61s").is_err());
    }
}
