//! Which settings are set, by what source, and the mistakes made on the way.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Effective;
use super::error::{ConfigError, Origin, Warning};
use super::ini::{self, Entry};
use super::keys::{Setting, is_cs_only};

/// What flags set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<Setting, String>);

/// A setting that has no flag.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "`{0}` has no flag, because everybody can read a command line; use the file or the environment"
)]
pub struct NoFlag(pub Setting);

impl Overrides {
    /// Notes the value of a flag.
    ///
    /// # Errors
    /// [`NoFlag`] for a secret.
    pub fn set(&mut self, setting: Setting, value: impl Into<String>) -> Result<(), NoFlag> {
        if !setting.spec().flag {
            return Err(NoFlag(setting));
        }
        self.0.insert(setting, value.into());
        Ok(())
    }

    /// Whether there is no flag.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a flag for a setting.
    pub fn has(&self, setting: Setting) -> bool {
        self.0.contains_key(&setting)
    }
}

/// A value and where it was set.
struct Set {
    text: String,
    origin: Origin,
}

/// The settings that are set, and what is wrong so far.
pub(super) struct Sources {
    set: BTreeMap<Setting, Set>,
    /// Every value of a secret in any source: none of them may be shown.
    secrets: Vec<String>,
    errors: Vec<ConfigError>,
    warnings: Vec<Warning>,
}

impl Sources {
    /// The file, then the environment, then the flags: what comes later wins.
    pub(super) fn collect(
        text: &str,
        env: &BTreeMap<String, String>,
        Overrides(flags): &Overrides,
    ) -> Self {
        let mut sources = Self {
            set: BTreeMap::new(),
            secrets: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        sources.file(&ini::parse(text));
        for setting in Setting::ALL.iter().copied() {
            let spec = setting.spec();
            if let Some(text) = env.get(spec.env) {
                sources.set(setting, text, Origin::Environment(spec.env));
            }
            if let Some(text) = flags.get(&setting) {
                sources.set(setting, text, Origin::Flag(spec.key));
            }
        }
        if env.contains_key("CLOUDSTACK_REGION") {
            sources.warn(Warning::CsRegion);
        }
        sources
    }

    /// An empty value is none: templates leave keys empty.
    fn set(&mut self, setting: Setting, text: &str, origin: Origin) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if text.contains(char::REPLACEMENT_CHARACTER) {
            let problem = "with bytes that are no UTF-8; write it again".to_owned();
            let found = "hidden here".to_owned();
            return self.mistake(ConfigError::BadValue { setting, origin, found, problem });
        }
        if setting.is_secret() {
            self.secrets.push(text.to_owned());
        }
        self.set.insert(setting, Set { text: text.to_owned(), origin });
    }

    /// Settings stand in `[Global]`, or in `[cloudstack]`: then other sections are other accounts of
    /// the `cs` tool.
    fn file(&mut self, file: &ini::File) {
        let has = |name: &str| {
            file.sections.iter().any(|(section, _)| section.eq_ignore_ascii_case(name))
        };
        let (global, cs) = (has("Global"), has("cloudstack"));
        if global && cs {
            self.mistake(ConfigError::TwoSections);
        }
        let of_cs_tool = cs && !global;
        let is_ours = |section: &str| {
            section.eq_ignore_ascii_case("Global") || section.eq_ignore_ascii_case("cloudstack")
        };
        for (section, line) in &file.sections {
            if !is_ours(section) && !of_cs_tool {
                self.mistake(ConfigError::UnknownSection {
                    line: *line,
                    section: shown_name(section),
                });
            }
        }
        for bad in &file.bad {
            if is_ours(&bad.section) || !of_cs_tool {
                self.mistake(ConfigError::BadLine { line: bad.line, why: bad.why });
            }
        }
        if let Some(entry) = file.entries.iter().find(|entry| entry.section.is_empty()) {
            self.mistake(ConfigError::NoSection { line: entry.line });
        }
        let mut cs_only = Vec::new();
        for entry in file.entries.iter().filter(|entry| is_ours(&entry.section)) {
            self.entry(entry, &mut cs_only);
        }
        if !cs_only.is_empty() {
            self.warn(Warning::CsOnly { keys: cs_only });
        }
    }

    fn entry(&mut self, entry: &Entry, cs_only: &mut Vec<String>) {
        let Entry { section: _, key, value, line } = entry;
        let line = *line;
        match Setting::of_key(key) {
            Some(setting) => {
                if self.set.contains_key(&setting) {
                    self.warn(Warning::SetTwice { setting, line });
                }
                let is_boolean = setting.spec().value == "boolean";
                match value {
                    Some(value) => self.set(setting, value, Origin::File(line)),
                    None if is_boolean => self.set(setting, "true", Origin::File(line)),
                    None => {
                        self.mistake(ConfigError::BadLine { line, why: "expected `key = value`" });
                    }
                }
            }
            None if is_cs_only(key) => {
                let key = key.to_ascii_lowercase();
                if !cs_only.contains(&key) {
                    cs_only.push(key);
                }
            }
            None if value.is_none() => {
                self.mistake(ConfigError::BadLine { line, why: "expected `key = value`" });
            }
            None => {
                if let Some(nearest) = Setting::nearest(key) {
                    self.mistake(ConfigError::UnknownKey { line, key: shown_name(key), nearest });
                }
            }
        }
    }

    /// Notes a mistake.
    pub(super) fn mistake(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Notes a warning.
    pub(super) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// A setting that any text will do for.
    pub(super) fn text(&self, setting: Setting) -> Option<String> {
        self.set.get(&setting).map(|Set { text, .. }| text.clone())
    }

    /// Reads a setting that may be absent. `parse` says what is wrong, as the end of a sentence.
    pub(super) fn optional<T>(
        &mut self,
        setting: Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Set { text, origin } = self.set.get(&setting)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(problem) => {
                let error = ConfigError::BadValue {
                    setting,
                    origin: origin.clone(),
                    found: self.shown(setting, text),
                    problem,
                };
                self.mistake(error);
                None
            }
        }
    }

    /// Reads a setting that must be there. It is not called missing where an unknown key looks as
    /// if it had been meant.
    pub(super) fn required<T>(
        &mut self,
        setting: Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let meant = |error: &ConfigError| matches!(error, ConfigError::UnknownKey { nearest, .. } if *nearest == setting);
        if !self.set.contains_key(&setting) && !self.errors.iter().any(meant) {
            self.mistake(ConfigError::Missing { setting });
        }
        self.optional(setting, parse)
    }

    /// What was set and where, secrets hidden.
    pub(super) fn effective(&self) -> Vec<Effective> {
        self.set
            .iter()
            .map(|(setting, Set { text, origin })| Effective {
                setting: *setting,
                value: if self.hides(*setting, text) {
                    "(hidden)".to_owned()
                } else {
                    text.clone()
                },
                origin: origin.clone(),
            })
            .collect()
    }

    /// The mistakes, those in the file first and by line, and the warnings.
    pub(super) fn finish(mut self) -> (Vec<ConfigError>, Vec<Warning>) {
        self.errors.sort_by_key(|error| error.line().unwrap_or(usize::MAX));
        (self.errors, self.warnings)
    }

    /// A value in quotes, unless it is a secret or may hold one: keys get pasted into wrong places, and
    /// lines run into each other.
    fn shown(&self, setting: Setting, text: &str) -> String {
        if self.hides(setting, text) || text.contains(['@', '=']) || looks_like_a_key(text) {
            return "hidden here".to_owned();
        }
        match text.char_indices().nth(80) {
            Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
            None => format!("{text:?}"),
        }
    }

    fn hides(&self, setting: Setting, text: &str) -> bool {
        setting.is_secret() || self.secrets.iter().any(|secret| text.contains(secret))
    }
}

/// Length of an API key or secret key that CloudStack makes: 64 bytes as Base64 without padding.
const KEY_LENGTH: usize = 86;

/// Whether a text has the form of a key of CloudStack.
fn looks_like_a_key(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.len() >= KEY_LENGTH && text.chars().all(allowed)
}

/// A key or section in quotes. A long one is no name but, it may be, a secret on a line of its own.
fn shown_name(name: &str) -> String {
    if name.len() <= 40 { format!("{name:?}") } else { format!("of {} characters", name.len()) }
}
