//! Global settings, by their names in CloudStack. A real server reads some of them only when it
//! starts; here each takes effect at once.

use jiff::SignedDuration;
use thiserror::Error;

/// The settings that matter here.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// `api.throttling.enabled`.
    pub(crate) throttling: bool,
    /// `api.throttling.interval`, in seconds: how long a window of the limit lasts.
    pub(crate) throttling_interval: SignedDuration,
    /// `api.throttling.max`: calls of an account in a window.
    pub(crate) throttling_max: u32,
    /// `enforce.post.requests.and.timestamps` (from 4.21).
    pub(crate) post_only: bool,
    /// `api.key.access` (from 4.20.1): whether keys are of use to users and accounts that say
    /// nothing themselves.
    pub(crate) api_key_access: bool,
    /// `public.ip.address.quarantine.duration` (from 4.19), in minutes: how long a released
    /// address is kept for its last owner.
    pub(crate) quarantine: SignedDuration,
}

/// A setting that can not be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    /// The setting has no meaning here.
    #[error("there is no setting `{name}` here; there are {}", NAMES.join(", "))]
    Unknown {
        /// Its name.
        name: String,
    },
    /// The value does not fit the setting.
    #[error("setting `{name}` can not be {value:?}; write `true`, `false` or a number")]
    Value {
        /// Its name.
        name: String,
        /// The value.
        value: String,
    },
}

const THROTTLING: &str = "api.throttling.enabled";
const THROTTLING_INTERVAL: &str = "api.throttling.interval";
const THROTTLING_MAX: &str = "api.throttling.max";
const POST_ONLY: &str = "enforce.post.requests.and.timestamps";
const API_KEY_ACCESS: &str = "api.key.access";
const QUARANTINE: &str = "public.ip.address.quarantine.duration";
const NAMES: [&str; 6] =
    [THROTTLING, THROTTLING_INTERVAL, THROTTLING_MAX, POST_ONLY, API_KEY_ACCESS, QUARANTINE];

impl Default for Settings {
    /// CloudStack's defaults.
    fn default() -> Self {
        Self {
            throttling: false,
            throttling_interval: SignedDuration::from_secs(1),
            throttling_max: 25,
            post_only: false,
            api_key_access: true,
            quarantine: SignedDuration::ZERO,
        }
    }
}

impl Settings {
    /// Changes one setting.
    ///
    /// # Errors
    /// If its name or value means nothing here.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        match name {
            THROTTLING => self.throttling = read(name, value)?,
            THROTTLING_INTERVAL => {
                self.throttling_interval =
                    SignedDuration::from_secs(read::<u32>(name, value)?.into());
            }
            THROTTLING_MAX => self.throttling_max = read(name, value)?,
            POST_ONLY => self.post_only = read(name, value)?,
            API_KEY_ACCESS => self.api_key_access = read(name, value)?,
            QUARANTINE => {
                self.quarantine = SignedDuration::from_mins(read::<u32>(name, value)?.into());
            }
            _ => return Err(SettingError::Unknown { name: name.to_owned() }),
        }
        Ok(())
    }
}

fn read<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, SettingError> {
    value
        .parse()
        .map_err(|_| SettingError::Value { name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_bad_values_are_told() {
        let mut settings = Settings::default();
        settings.set("api.throttling.max", "3").unwrap();
        assert_eq!(settings.throttling_max, 3);
        let bad = settings.set("api.throttling.max", "many").unwrap_err();
        assert!(bad.to_string().contains("\"many\""), "{bad}");
        let unknown = settings.set("api.throttling.min", "3").unwrap_err();
        assert!(unknown.to_string().contains("api.throttling.interval"), "{unknown}");
    }
}
