//! The form for people: by Service what changes and what does not, then the order of calls, then
//! one summary line, last, stable, greppable.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::model::policy::Mode;
use crate::plan::reason::Disruption;
use crate::plan::report::Severity;
use crate::render::document::{Change, Document, NoteView, Operation, StepView};

/// Whether marks are coloured. They carry their meaning without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const CYAN: &str = "36";
const BOLD_RED: &str = "1;31";
const DIM: &str = "2";

/// Prints a document.
pub fn print(document: &Document, colour: Colour) -> String {
    let mut text = String::new();
    let mut printer = Printer { out: &mut text, colour };
    printer.document(document);
    text
}

/// The last line of a printed document.
pub fn summary_line(document: &Document) -> String {
    let summary = &document.summary;
    if !document.has_changes() {
        return match (summary.blocked, summary.waiting) {
            (0, 0) => "No changes. CloudStack is as the Services want it.".to_owned(),
            (blocked, waiting) => {
                format!("No changes. {blocked} blocked, {waiting} waiting.")
            }
        };
    }
    if summary.changing_calls == 0 {
        let writes = summary.kubernetes_writes;
        return format!("Plan: 0 CloudStack changes, {writes} writes to Kubernetes.");
    }
    let mut parts = vec![
        format!("{} to add", summary.create),
        format!("{} to change", summary.update),
        format!("{} to replace", summary.replace),
        format!("{} to delete", summary.delete),
    ];
    let more =
        [(summary.adopt, "to adopt"), (summary.blocked, "blocked"), (summary.waiting, "waiting")];
    parts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
    format!("Plan: {}.", parts.join(", "))
}

struct Printer<'o> {
    out: &'o mut String,
    colour: Colour,
}

impl Printer<'_> {
    fn document(&mut self, document: &Document) {
        self.header(document);
        let mut services: Vec<&str> = Vec::new();
        let changed = document.changes.iter().map(|change| change.service.as_str());
        for service in changed.chain(document.notes.iter().map(|note| note.service.as_str())) {
            if !services.contains(&service) {
                services.push(service);
            }
        }
        for service in services {
            self.service(document, service);
        }
        self.order(document);
        self.summary(document);
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn header(&mut self, document: &Document) {
        let scope = &document.scope;
        let project = scope.project.as_deref().unwrap_or("none");
        self.line(&format!("cluster {}   project {project}", scope.cluster_id));
        let version = document.server.version.as_deref().unwrap_or("of unknown version");
        let seen = &scope.seen;
        self.line(&format!(
            "server {version}   observed {}   rules {}  addresses {}  VMs {}",
            document.observed_at, seen.rules, seen.addresses, seen.virtual_machines
        ));
        if !document.server.unavailable.is_empty() {
            let commands = document.server.unavailable.join(", ");
            self.line(&format!("the role may not call {commands}"));
        }
        self.line("");
    }

    fn service(&mut self, document: &Document, service: &str) {
        self.line(service);
        for change in document.changes.iter().filter(|change| change.service == service) {
            self.change(change);
        }
        let mut notes: Vec<&NoteView> =
            document.notes.iter().filter(|note| note.service == service).collect();
        notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
        for note in notes {
            self.note(note);
        }
        self.line("");
    }

    fn change(&mut self, change: &Change) {
        let (mark, style) = match change.operation {
            Operation::Create => ("+", GREEN),
            Operation::Update => ("~", YELLOW),
            Operation::ReplaceDeleteFirst => ("-/+", RED),
            Operation::ReplaceCreateFirst => ("+/-", YELLOW),
            Operation::Delete => ("-", RED),
            Operation::Adopt => ("=", CYAN),
            Operation::Write => ("~", DIM),
        };
        let mark = self.styled(&format!("{mark:<3}"), style);
        let letter = change.disruption.letter();
        self.line(&format!("  {mark} {:<17} {letter}  {}", change.object, change.detail));
        for why in &change.reasons {
            let reason = self.styled(&format!("{} ({})", why.text, why.code), DIM);
            self.line(&format!("                           {reason}"));
        }
    }

    fn note(&mut self, note: &NoteView) {
        let (mark, style) = match note.severity {
            Severity::Blocked => ("!", BOLD_RED),
            Severity::Waiting => ("…", YELLOW),
            Severity::Warning => ("!", YELLOW),
            Severity::LeftAlone => ("?", DIM),
        };
        let mark = self.styled(&format!("{mark:<3}"), style);
        self.line(&format!("  {mark} {}: {}", note.code, note.text));
    }

    fn order(&mut self, document: &Document) {
        if document.steps.is_empty() {
            return;
        }
        let several = document.scope.services > 1;
        let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        self.line("order of calls                                         after");
        for (index, step) in document.steps.iter().enumerate() {
            let number = index + 1;
            numbers.insert((&step.service, &step.id), number);
            let after = step.after.iter().filter_map(|id| {
                numbers.get(&(step.service.as_str(), id.as_str())).map(ToString::to_string)
            });
            let after: Vec<String> = after.collect();
            let after = if after.is_empty() { "-".to_owned() } else { after.join(",") };
            let name = step_name(step, several);
            let disruption = disruption_word(step.disruption);
            self.line(&format!(
                "{number:>4}  {:<27} {name:<21} {after:<7} {disruption}",
                step.call.name
            ));
        }
        self.line("");
    }

    fn summary(&mut self, document: &Document) {
        if document.has_changes() && document.summary.changing_calls > 0 {
            let summary = &document.summary;
            let mut cost = format!(
                "Cost: {} changing calls, about {} status polls, at most {} router reloads, {} cuts",
                summary.changing_calls,
                summary.polls_estimate,
                summary.router_reloads,
                summary.cuts,
            );
            if summary.address_changes > 0 {
                // Writing to a String can't fail.
                let _ = write!(cost, ", {} address changes", summary.address_changes);
            }
            self.line(&format!("{cost}."));
        }
        if document.scope.mode == Mode::Manifests && document.summary.kubernetes_writes > 0 {
            self.line("Writes to Kubernetes are shown and not counted: Services come from files.");
        }
        self.line(&summary_line(document));
    }

    fn styled(&self, text: &str, style: &str) -> String {
        match self.colour {
            Colour::Never => text.to_owned(),
            Colour::Always => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
        }
    }
}

fn step_name(step: &StepView, with_service: bool) -> String {
    if with_service { format!("{} {}", step.service, step.id) } else { step.id.clone() }
}

fn disruption_word(disruption: Disruption) -> &'static str {
    match disruption {
        Disruption::None => "",
        Disruption::Reload => "reload",
        Disruption::Cut => "cut",
        Disruption::AddressChange => "address change",
    }
}
