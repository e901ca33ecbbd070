//! What a Service records → [`Recorded`].
//!
//! A record is bound to a Service by uid. One of another uid (a copied or restored manifest) counts
//! as absent, and so does the verdict beside it, unless a record of this Service stands there too.
//! What can't be read counts as absent as well, with a warning.

use std::collections::BTreeMap;

use crate::ids::{ClusterId, PublicIpId, ServiceUid};
use crate::model::record::{FINALIZER, ForkRecord, Intents, Record, Recorded, Verdict};
use crate::parse::annotations;
use crate::parse::error::SpecWarning;
use crate::parse::raw::RawService;

/// Reads what stands on the Service of that uid.
pub(super) fn recorded(
    raw: &RawService,
    uid: &ServiceUid,
    warnings: &mut Vec<SpecWarning>,
) -> Recorded {
    let mut of_another_service = false;
    let mut own = |service: &ServiceUid| {
        let own = service == uid;
        of_another_service |= !own;
        own
    };
    let intents = read(raw, annotations::INTENT, Intents::parse, warnings).into_iter().flatten();
    let intents = intents.filter(|intent| own(&intent.service)).collect();
    let record = read(raw, annotations::RECORD, Record::parse, warnings)
        .filter(|record| own(&record.service));
    let fork = read(raw, annotations::FORK_ID, PublicIpId::parse, warnings)
        .map(|address| ForkRecord { address });
    let verdict = verdict(raw, warnings).filter(|_| record.is_some() || !of_another_service);
    Recorded {
        finalizer: raw.finalizers.iter().any(|name| name == FINALIZER),
        verdict,
        intents,
        record,
        of_another_service,
        fork,
        ingress: raw.ingress.clone(),
        stripped: false,
    }
}

/// The cluster id that the Services of a cluster carry in their own records: that of most of them,
/// the first in order of two. A cluster keeps it for good, also if what it was taken from is gone.
pub fn cluster_id_in_use<'a>(
    services: impl IntoIterator<Item = &'a RawService>,
) -> Option<ClusterId> {
    let mut counts: BTreeMap<ClusterId, usize> = BTreeMap::new();
    for raw in services {
        let record =
            raw.annotations.get(annotations::RECORD).and_then(|text| Record::parse(text).ok());
        let own = record.filter(|record| raw.uid.as_deref() == Some(record.service.as_str()));
        if let Some(record) = own {
            *counts.entry(record.cluster).or_default() += 1;
        }
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(id, _)| id)
}

fn read<T, E: ToString>(
    raw: &RawService,
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
    warnings: &mut Vec<SpecWarning>,
) -> Option<T> {
    match parse(raw.annotations.get(key)?) {
        Ok(value) => Some(value),
        Err(error) => {
            let mut why = error.to_string();
            if let Some((end, _)) = why.char_indices().nth(200) {
                why.truncate(end);
            }
            warnings.push(SpecWarning::UnreadableRecord { key, why });
            None
        }
    }
}

fn verdict(raw: &RawService, warnings: &mut Vec<SpecWarning>) -> Option<Verdict> {
    match raw.annotations.get(annotations::VERDICT)?.as_str() {
        "true" => Some(Verdict::Ours),
        "false" => Some(Verdict::User),
        value => {
            warnings.push(SpecWarning::UnreadableVerdict { value: value.to_owned() });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";
    const OTHER: &str = "7f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f";

    fn record_of(uid: &str) -> String {
        format!(r#"{{"v":1,"cluster":"prod","service":"{uid}","addresses":[]}}"#)
    }

    fn intent_of(uid: &str) -> String {
        format!("83ab0ded-0000-4000-8000-000000000001 2026-12-01T20:48:10Z {uid}")
    }

    fn read_all(annotations: &[(&str, &str)]) -> (Recorded, Vec<SpecWarning>) {
        let raw = RawService {
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..RawService::default()
        };
        let mut warnings = Vec::new();
        let read = recorded(&raw, &ServiceUid::parse(UID).unwrap(), &mut warnings);
        (read, warnings)
    }

    #[test]
    fn own_records_are_read() {
        let (read, warnings) = read_all(&[
            (annotations::RECORD, &record_of(UID)),
            (annotations::INTENT, &intent_of(UID)),
            (annotations::VERDICT, "true"),
        ]);
        assert!(warnings.is_empty());
        assert!(read.record.is_some() && !read.intents.is_empty() && !read.of_another_service);
        assert_eq!(read.verdict, Some(Verdict::Ours));
    }

    #[test]
    fn c103_a_copied_record_is_absent_with_its_verdict() {
        for copied in [
            [(annotations::RECORD, record_of(OTHER)), (annotations::VERDICT, "true".into())],
            [(annotations::INTENT, intent_of(OTHER)), (annotations::VERDICT, "true".into())],
        ] {
            let copied: Vec<_> = copied.iter().map(|(key, text)| (*key, text.as_str())).collect();
            let (read, warnings) = read_all(&copied);
            assert!(warnings.is_empty());
            assert!(read.of_another_service);
            assert_eq!((read.record, read.verdict), (None, None));
            assert!(read.intents.is_empty());
        }
    }

    #[test]
    fn c103_an_own_intent_beside_a_copied_record_does_not_revive_its_verdict() {
        let (read, _) = read_all(&[
            (annotations::RECORD, &record_of(OTHER)),
            (annotations::INTENT, &intent_of(UID)),
            (annotations::VERDICT, "true"),
        ]);
        assert!(read.of_another_service && !read.intents.is_empty());
        assert_eq!(read.verdict, None);
    }

    #[test]
    fn what_cannot_be_read_is_absent_and_told() {
        let (read, warnings) = read_all(&[
            (annotations::RECORD, "{"),
            (annotations::INTENT, "soon"),
            (annotations::VERDICT, "yes"),
            (annotations::FORK_ID, ""),
        ]);
        assert_eq!(read, Recorded::default());
        let codes: Vec<_> = warnings.iter().map(SpecWarning::code).collect();
        assert_eq!(
            codes,
            ["UnreadableRecord", "UnreadableRecord", "UnreadableRecord", "UnreadableVerdict"]
        );
    }

    #[test]
    fn the_cluster_id_in_use_is_that_of_most_own_records() {
        let service = |name: &str, uid: &str, cluster: &str, of: &str| RawService {
            name: name.into(),
            uid: Some(uid.into()),
            annotations: [(
                annotations::RECORD.into(),
                format!(r#"{{"v":1,"cluster":"{cluster}","service":"{of}","addresses":[]}}"#),
            )]
            .into(),
            ..RawService::default()
        };
        let uids = ["6f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f", "7f1c2a30-5b7e-4c11-9d02-1a2b3c4d5e6f"];
        let copies = ["a", "b"].map(|name| service(name, uids[0], "elsewhere", uids[1]));
        let own = service("c", uids[1], "prod", uids[1]);
        assert_eq!(cluster_id_in_use(&copies), None);
        assert_eq!(cluster_id_in_use(copies.iter().chain([&own])).unwrap().as_str(), "prod");
        assert_eq!(cluster_id_in_use(&[RawService::default()]), None);
    }
}
