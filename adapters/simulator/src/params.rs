//! Parameters of a call: checked and resolved against the command's declaration, as CloudStack does
//! before it runs a command or makes a job.

use std::collections::BTreeMap;

use crate::cloud::Cloud;
use crate::commands::{Command, Entity, Kind, Param};
use crate::error::ApiError;
use crate::ids::is_uuid;
use crate::table::Key;

/// The parameters of one call. Names are in lower case; what the command does not declare is left
/// out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params {
    texts: BTreeMap<String, String>,
    /// Database numbers of the objects that id parameters name.
    numbers: BTreeMap<&'static str, Vec<u64>>,
    maps: BTreeMap<String, Fields>,
}

/// The entries of a map parameter by index, each with its fields.
pub(crate) type Fields = BTreeMap<u64, BTreeMap<String, String>>;

/// Longest value of most parameters, in characters.
const LENGTH: usize = 255;

impl Params {
    /// Checks in CloudStack's order: map syntax, characters, then every declared parameter.
    pub(crate) fn read(
        given: &[(String, String)],
        command: &'static Command,
        cloud: &Cloud,
    ) -> Result<Self, ApiError> {
        let mut params = Self::default();
        // Of several malformed names CloudStack tells one in the order of a hash map.
        let malformed = given.iter().filter_map(|(name, value)| params.unpack(name, value).err());
        if let Some(error) = malformed.last() {
            return Err(error);
        }
        for (name, value) in given {
            if value.chars().any(is_refused) {
                return Err(ApiError::parameter(format!(
                    "Received value containing illegal ASCII non-printable characters for parameter {name}"
                )));
            }
        }
        let declared: Vec<&Param> = command.all_params(&cloud.version).collect();
        params.texts.retain(|name, _| declared.iter().any(|param| param.name == name));
        for param in declared {
            params.check(param, command, cloud)?;
        }
        Ok(params)
    }

    /// The text of a parameter; empty text is a value.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The text of a parameter whose blank value means nothing.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|text| !text.trim().is_empty())
    }

    /// Only `true` in any letter case is true.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|text| text.eq_ignore_ascii_case("true"))
    }

    /// A number; an empty value counts as absent.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// A comma-separated list: empty entries dropped, nothing trimmed. An empty value is an empty
    /// list.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let text = self.text(name)?;
        Some(text.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
    }

    /// The object that an id parameter names.
    pub(crate) fn key<T>(&self, name: &str) -> Option<Key<T>> {
        let numbers = self.numbers.get(name)?;
        numbers.first().map(|number| Key::of(*number))
    }

    /// The object that a required id parameter names; -1 names none.
    pub(crate) fn required<T>(&self, name: &str) -> Key<T> {
        self.key(name).unwrap_or_else(|| Key::of(0))
    }

    /// The objects that a parameter with a list of ids names.
    pub(crate) fn keys<T>(&self, name: &str) -> Option<Vec<Key<T>>> {
        let numbers = self.numbers.get(name)?;
        Some(numbers.iter().map(|number| Key::of(*number)).collect())
    }

    /// Whether a text parameter is absent or passes a test.
    pub(crate) fn agrees(&self, name: &str, test: impl FnOnce(&str) -> bool) -> bool {
        self.text(name).is_none_or(test)
    }

    /// Whether an id parameter is absent or names this object.
    pub(crate) fn names<T>(&self, name: &str, key: impl Into<Option<Key<T>>>) -> bool {
        let asked = self.key::<T>(name);
        asked.is_none() || asked == key.into()
    }

    /// Whether a flag is absent or says this.
    pub(crate) fn says(&self, name: &str, value: bool) -> bool {
        self.flag(name).is_none_or(|asked| asked == value)
    }

    /// Whether `zoneid` is absent or names the one zone.
    pub(crate) fn is_in_zone(&self) -> bool {
        self.names("zoneid", Key::<()>::of(1))
    }

    /// The entries of a map parameter.
    pub(crate) fn map(&self, name: &str) -> Option<&Fields> {
        self.maps.get(name)
    }

    fn unpack(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        let Some((base, rest)) = name.split_once('[') else {
            self.texts.insert(name.to_lowercase(), value.to_owned());
            return Ok(());
        };
        let malformed = || {
            ApiError::new(
                430,
                9999,
                format!(
                    "Unable to decode parameter {name}; if specifying an object array, please use parameter[index].field=XXX, e.g. userGroupList[0].group=httpGroup"
                ),
            )
        };
        let (index, field) = rest.split_once("].").ok_or_else(malformed)?;
        let index = index.parse().map_err(|_| malformed())?;
        self.maps
            .entry(base.to_lowercase())
            .or_default()
            .entry(index)
            .or_default()
            .insert(field.to_owned(), value.to_owned());
        Ok(())
    }

    fn check(
        &mut self,
        param: &'static Param,
        command: &'static Command,
        cloud: &Cloud,
    ) -> Result<(), ApiError> {
        let given = if param.kind == Kind::Map {
            self.maps.contains_key(param.name)
        } else {
            self.texts.contains_key(param.name)
        };
        if !given {
            return if param.required {
                Err(ApiError::parameter(format!(
                    "Unable to execute API command {} due to missing parameter {}",
                    command.error_name(),
                    param.name
                )))
            } else {
                Ok(())
            };
        }
        let value = self.texts.get(param.name).cloned().unwrap_or_default();
        if param.required && value.is_empty() && param.kind != Kind::Map {
            return Err(ApiError::invalid(format!(
                "Invalid value provided for API arg: {}",
                param.name
            )));
        }
        match param.kind {
            Kind::Text => check_length(command, param, &value, LENGTH),
            Kind::LongText(limit) => check_length(command, param, &value, limit),
            Kind::Flag | Kind::List | Kind::Map => Ok(()),
            Kind::Number => check_number(command, param, &value),
            Kind::Id(entity) => {
                // CloudStack passes -1 through; only projectid gives it a meaning.
                if value != "-1" {
                    let number = resolve_one(command, param, entity, &value, cloud)?;
                    self.numbers.insert(param.name, number.into_iter().collect());
                }
                Ok(())
            }
            Kind::Ids(entity) => {
                let mut numbers = Vec::new();
                for entry in value.split(',').filter(|entry| !entry.is_empty()) {
                    let number = resolve_one(command, param, entity, entry, cloud)?;
                    numbers.extend(number);
                }
                self.numbers.insert(param.name, numbers);
                Ok(())
            }
        }
    }
}

/// ASCII control characters but for line feed and carriage return.
fn is_refused(letter: char) -> bool {
    letter.is_ascii_control() && letter != '\n' && letter != '\r'
}

fn check_length(
    command: &Command,
    param: &Param,
    value: &str,
    limit: usize,
) -> Result<(), ApiError> {
    if value.chars().count() <= limit {
        return Ok(());
    }
    let shown = match (command.name, param.name) {
        // The field's name in Java, which the message shows.
        ("createLoadBalancerRule", "name") => "loadBalancerRuleName",
        ("updateLoadBalancerRule", "name") => "loadBalancerName",
        (_, name) => name,
    };
    Err(ApiError::parameter(format!(
        "Unable to execute API command {} due to invalid value. Value greater than max allowed length {limit} for param: {shown}",
        command.error_name(),
    )))
}

fn check_number(command: &Command, param: &Param, value: &str) -> Result<(), ApiError> {
    if value.is_empty() || value.parse::<i32>().is_ok() {
        return Ok(());
    }
    Err(ApiError::parameter(format!(
        "Unable to execute API command {} due to invalid value {value} for parameter {}",
        command.error_name(),
        param.name
    )))
}

/// The number behind an id. In a parameter that is newer than the API itself, text that is no UUID
/// drops out silently.
fn resolve_one(
    command: &Command,
    param: &Param,
    entity: Entity,
    value: &str,
    cloud: &Cloud,
) -> Result<Option<u64>, ApiError> {
    if !is_uuid(value) {
        if param.since.is_some() {
            return Ok(None);
        }
        // A database number passes unchecked.
        if let Ok(number) = value.parse() {
            return Ok(Some(number));
        }
    }
    match cloud.resolve(entity, value) {
        Some(number) => Ok(Some(number)),
        None => Err(ApiError::parameter(format!(
            "Unable to execute API command {} due to invalid value. Invalid parameter {} value={value} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.",
            command.error_name(),
            param.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Lab;

    const NOBODY: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn missing_and_empty_required_parameters_are_named_one_at_a_time() {
        let mut lab = Lab::new();
        let missing = lab.refused("createLoadBalancerRule", &[]);
        assert_eq!((missing.code, missing.class), (431, Some(9999)));
        assert_eq!(
            missing.text,
            "Unable to execute API command createloadbalancerrule due to missing parameter algorithm"
        );
        assert_eq!(missing.root, "createloadbalancerruleresponse");
        let empty = lab.refused("createLoadBalancerRule", &[("algorithm", "")]);
        assert_eq!((empty.code, empty.class), (431, Some(4350)));
        assert_eq!(empty.text, "Invalid value provided for API arg: algorithm");
    }

    #[test]
    fn unknown_ids_fail_with_the_request() {
        let mut lab = Lab::new();
        for command in [
            "listNetworks",
            "listPublicIpAddresses",
            "deleteLoadBalancerRule",
            "updateNetworkACLItem",
        ] {
            let refused = lab.refused(command, &[("id", NOBODY)]);
            assert_eq!((refused.code, refused.class), (431, Some(9999)));
            assert!(refused.text.contains("entity does not exist"), "{}", refused.text);
        }
        assert_eq!(lab.refused("listNetworks", &[("id", "foo")]).code, 431);
    }

    #[test]
    fn odd_ids_drop_out_of_parameters_that_are_newer_than_the_api() {
        let mut lab = Lab::new();
        let address = lab.address("203.0.113.2");
        lab.open(&address, "80", "10.0.0.0/8");
        assert_eq!(lab.rows("listFirewallRules", &[("networkid", "foo")]).len(), 1);
        assert_eq!(lab.rows("listVirtualMachines", &[("ids", "foo")]).len(), 0);
        assert_eq!(lab.refused("listVirtualMachines", &[("ids", NOBODY)]).code, 431);
    }

    #[test]
    fn names_are_in_any_letter_case_and_only_true_is_true() {
        let mut lab = Lab::new();
        let network = lab.id("listNetworks", "iso");
        for not_true in ["1", "yes", "on", "false"] {
            let isolated = [("ID", network.as_str()), ("forVpc", not_true)];
            assert_eq!(lab.rows("listNetworks", &isolated).len(), 1, "{not_true}");
        }
        assert_eq!(lab.rows("listNetworks", &[("id", &network), ("forvpc", "True")]).len(), 0);
    }

    #[test]
    fn control_characters_long_values_and_bad_maps_are_refused() {
        let mut lab = Lab::new();
        let long = "x".repeat(256);
        assert_eq!(lab.refused("listVirtualMachines", &[("name", &long)]).code, 431);
        assert_eq!(lab.refused("listVirtualMachines", &[("name", "a\tb")]).code, 431);
        assert_eq!(lab.rows("listVirtualMachines", &[("name", "a\nb")]).len(), 0);
        assert_eq!(lab.refused("listTags", &[("tags[x].key", "a")]).code, 430);
        assert_eq!(lab.refused("listTags", &[("tags[0]key", "a")]).code, 430);
        assert_eq!(lab.refused("listNetworks", &[("page", "x"), ("pagesize", "1")]).code, 431);
    }

    #[test]
    fn unknown_parameters_are_ignored() {
        assert_eq!(Lab::new().rows("listZones", &[("colour", "blue")]).len(), 1);
    }
}
