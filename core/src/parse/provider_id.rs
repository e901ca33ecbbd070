//! `spec.providerID` of a Node, in every spelling that is in use.

use crate::ids::VirtualMachineId;
use crate::model::node::ProviderId;

const SCHEMES: [&str; 2] = ["external-cloudstack", "cloudstack"];

/// Reads a provider id.
///
/// The id is what follows the last slash, in lower case: `external-cloudstack://<id>`,
/// `cloudstack:///<id>`, `cloudstack://<region>/<id>`, and a bare `<id>` mean the same. Nothing
/// after the slashes means none. Another scheme, or an id that CloudStack can't have made, is
/// somebody else's.
pub fn provider_id(text: &str) -> ProviderId {
    let foreign = || ProviderId::Foreign(text.to_owned());
    let id = match text.split_once("://") {
        Some((scheme, path)) if is_ours(scheme) => path.rsplit('/').next().unwrap_or_default(),
        None if !text.contains(['/', ':']) => text,
        Some(_) | None => return foreign(),
    };
    if id.is_empty() {
        return ProviderId::None;
    }
    match VirtualMachineId::parse(&id.to_lowercase()) {
        Ok(id) => ProviderId::CloudStack(id),
        Err(_) => foreign(),
    }
}

/// The provider id that we write for a machine.
pub fn provider_id_of(machine: &VirtualMachineId) -> String {
    let [ours, _] = SCHEMES;
    format!("{ours}://{machine}")
}

fn is_ours(scheme: &str) -> bool {
    SCHEMES.iter().any(|ours| ours.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const U1: &str = "cdaf2677-9bae-4306-85f3-f52877d106bb";

    #[test]
    fn c065_every_spelling_of_a_provider_id_gives_its_machine() {
        for text in [
            format!("external-cloudstack://{U1}"),
            format!("external-cloudstack:///{U1}"),
            format!("cloudstack:///{U1}"),
            format!("cloudstack://{U1}"),
            format!("cloudstack://region-1/{U1}"),
            U1.to_owned(),
            U1.to_uppercase(),
        ] {
            let id = VirtualMachineId::parse(U1).unwrap();
            assert_eq!(provider_id(&text), ProviderId::CloudStack(id), "{text}");
        }
    }

    #[test]
    fn c065_an_id_without_a_machine_is_none_and_another_scheme_is_foreign() {
        for text in ["", "external-cloudstack://", "cloudstack:///", "cloudstack://region-1/"] {
            assert_eq!(provider_id(text), ProviderId::None, "{text:?}");
        }
        for text in ["kind://x/y", "aws:///zone/i-1", "cloudstack:///a b", "a/b", "://x"] {
            assert_eq!(provider_id(text), ProviderId::Foreign(text.to_owned()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = provider_id(&text);
            let _ = provider_id(&format!("cloudstack://{text}"));
        }
    }
}
