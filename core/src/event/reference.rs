//! The reference of events.

use std::fmt::Write as _;

use crate::event::note::{Told, told};
use crate::event::{Component, Kind, Occasion};
use crate::node::note::NodeNote;
use crate::parse::SpecWarning;
use crate::plan::report::Note;

/// The page `deploy/docs/events.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Events\n\n<!-- Generated from core/src/event/; tests/tests/docs.rs compares. -->\n\n\
         Events are of the core group (`v1`), on the Service, the Node or the Lease that they are about. \
         Reasons are never re-used. Words in braces stand for what was found.\n\n\
         The same event again is counted up; from the tenth message of one reason within ten minutes on \
         they are folded into one; a component tells 25 things of a type about an object, then one more \
         every five minutes.\n\n## What happens\n\n",
    );
    page.push_str("| Reason | Type | From | Message |\n|---|---|---|---|\n");
    for (reason, component, kind, text) in Occasion::TABLE {
        row(&mut page, reason, *kind, *component, text);
    }
    page.push_str(
        "\n`DeleteLoadBalancerFailed` is told of a Service that is gone altogether; any other \
         failed removal is a\n`SyncLoadBalancerFailed`.\n\n\
         ## What stands\n\nTold when it begins and when its text changes; a warning again every hour. \
         A restart is quiet about Services that\nneed nothing. What is refused is told as \
         `SyncLoadBalancerFailed`; the rest under the [code](codes.md) of the note:\n\n\
         | Reason | Type | From |\n|---|---|---|\n",
    );
    for (reason, kind, component) in standing() {
        let _ = writeln!(page, "| {reason} | {} | {} |", kind.as_str(), component.as_str());
    }
    page
}

fn standing() -> Vec<(&'static str, Kind, Component)> {
    let mut rows = Vec::new();
    for (code, severity, _) in Note::CODES {
        match told(code, *severity) {
            Told::Own(kind) => rows.push((*code, kind, Component::Service)),
            Told::Oddity => rows.extend(
                SpecWarning::CODES.iter().map(|code| (*code, Kind::Warning, Component::Service)),
            ),
            Told::Refusal | Told::NoNodes | Told::Not => {}
        }
    }
    rows.extend(NodeNote::CODES.iter().map(|code| (*code, Kind::Warning, Component::Node)));
    rows
}

fn row(page: &mut String, reason: &str, kind: Kind, component: Component, text: &str) {
    let text = text.replace('|', "\\|");
    // Writing to a String can't fail.
    let _ = writeln!(page, "| {reason} | {} | {} | {text} |", kind.as_str(), component.as_str());
}
