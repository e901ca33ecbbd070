//! The form for people: by Service what changes and what does not, then the order of calls, then
//! one summary line, last, stable, greppable.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::model::policy::Mode;
use crate::plan::reason::Disruption;
use crate::plan::report::Severity;
use crate::render::document::{
    Change, Detail, Document, NoteView, Operation, ServiceView, StepView,
};

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
const BOLD: &str = "1";

/// Columns that a line may have.
const WIDTH: usize = 100;
/// The column in which texts begin.
const TEXT: usize = 24;

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
        let warned = document.notes.iter().any(|note| note.severity == Severity::Warning);
        return match (summary.blocked, summary.waiting) {
            (0, 0) if warned => "Plan: no changes.".to_owned(),
            (0, 0) => "Plan: no changes. CloudStack is as the Services want it.".to_owned(),
            (blocked, waiting) => {
                format!("Plan: no changes, {blocked} blocked, {waiting} waiting.")
            }
        };
    }
    if summary.changing_calls == 0 {
        let writes = counted(summary.kubernetes_writes, "write");
        return format!("Plan: 0 CloudStack changes, {writes} to Kubernetes.");
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

/// A count with its noun in the singular, which takes an `s` for all but one.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

struct Printer<'o> {
    out: &'o mut String,
    colour: Colour,
}

impl Printer<'_> {
    fn document(&mut self, document: &Document) {
        self.header(document);
        for view in &document.services {
            self.service(document, view);
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
        let project = scope.project.as_deref().map(|id| format!("   project {id}"));
        self.line(&format!("cluster {}{}", scope.cluster_id, project.unwrap_or_default()));
        let version = document.server.version.as_deref().unwrap_or("of unknown version");
        let seen = &scope.seen;
        self.line(&format!(
            "CloudStack {version}   read {}   rules {}   addresses {}   VMs {}",
            document.observed_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            seen.rules,
            seen.addresses,
            seen.virtual_machines
        ));
        if !document.server.unavailable.is_empty() {
            let commands = document.server.unavailable.join(", ");
            self.line(&format!("the role may not call {commands}"));
        }
        self.line("");
    }

    /// A Service with nothing to do and nothing to say is not mentioned.
    fn service(&mut self, document: &Document, view: &ServiceView) {
        let ServiceView { service, network, address } = view;
        let changes = shown(document, service);
        let mut notes: Vec<&NoteView> =
            document.notes.iter().filter(|note| note.service == *service).collect();
        if changes.is_empty() && notes.is_empty() {
            return;
        }
        let network = network.as_ref().map(|name| format!("network {name}"));
        let address = address.as_ref().map(|text| format!("address {text}"));
        let place = [network, address].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let title = self.styled(service, BOLD);
        let gap = " ".repeat(TEXT.saturating_sub(service.chars().count()).max(2));
        self.line(&format!("{title}{gap}{place}"));
        for change in changes {
            self.change(change);
        }
        notes.sort_by_key(|note| std::cmp::Reverse(note.severity));
        self.notes(&notes);
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
        let (whole, parts): (Vec<&Detail>, Vec<&Detail>) =
            change.details.iter().partition(|detail| detail.what.is_empty());
        let between = if change.operation == Operation::Write { ", " } else { "; " };
        let whole: Vec<&str> = whole.iter().map(|detail| detail.text.as_str()).collect();
        let cost = match disruption_word(change.disruption) {
            "" => String::new(),
            word => format!("   [{word}]"),
        };
        let headline = format!("{}{cost}", whole.join(between));
        let mut lines = wrapped(headline.trim_start(), WIDTH - TEXT).into_iter();
        let first = lines.next().unwrap_or_default();
        self.line(&format!("  {mark} {:<17} {first}", change.object));
        for line in lines {
            self.text("", &line);
        }
        for Detail { what, text } in parts {
            self.text(what, text);
        }
        // Writes explain themselves: they frame the rest.
        if change.operation != Operation::Write {
            let mut label = "why";
            for why in &change.reasons {
                for line in wrapped(&format!("{} ({})", why.text, why.code), WIDTH - TEXT) {
                    let line = self.styled(&line, DIM);
                    self.line(&format!("        {label:<15} {line}"));
                    label = "";
                }
            }
        }
    }

    /// A text under a label, in the column of texts.
    fn text(&mut self, label: &str, text: &str) {
        let mut label = label;
        for line in wrapped(text, WIDTH - TEXT) {
            self.line(&format!("        {label:<15} {line}"));
            label = "";
        }
    }

    /// Of three or more notes with one code the first is shown and the others are counted.
    fn notes(&mut self, notes: &[&NoteView]) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for note in notes {
            *counts.entry(&note.code).or_default() += 1;
        }
        let mut told: BTreeSet<&str> = BTreeSet::new();
        for note in notes {
            let count = counts.get(note.code.as_str()).copied().unwrap_or_default();
            let first = told.insert(&note.code);
            if first || count <= 2 {
                self.note(note);
            }
            if first && count > 2 {
                let more = format!("(and {} more like this; --output json has them)", count - 1);
                self.line(&format!("      {}", self.styled(&more, DIM)));
            }
        }
    }

    fn note(&mut self, note: &NoteView) {
        let (mark, style) = match note.severity {
            Severity::Blocked => ("!", BOLD_RED),
            Severity::Waiting => ("…", YELLOW),
            Severity::Warning => ("!", YELLOW),
            Severity::LeftAlone => ("?", DIM),
        };
        let mut mark = self.styled(&format!("{mark:<3}"), style);
        // Mistakes of a Service are a list of their own.
        for paragraph in format!("{}: {}", note.code, note.text).lines() {
            for line in wrapped(paragraph, WIDTH - 6) {
                self.line(&format!("  {mark} {line}"));
                "   ".clone_into(&mut mark);
            }
        }
    }

    fn order(&mut self, document: &Document) {
        if !document.has_changes() {
            return;
        }
        let longest = document.steps.iter().map(|step| step.id.chars().count()).max();
        let names = longest.unwrap_or_default().max(20);
        let command = "calls, in order";
        self.line(&format!("{command:<34}{:names$}  after", ""));
        let mut numbers: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut service = "";
        for (index, step) in document.steps.iter().enumerate() {
            if document.services.len() > 1 && step.service != service {
                service = &step.service;
                self.line(&format!("      {}", self.styled(service, BOLD)));
            }
            let number = index + 1;
            numbers.insert((&step.service, &step.id), number);
            let after = immediate(step, &document.steps);
            let after = after
                .iter()
                .filter_map(|id| numbers.get(&(step.service.as_str(), *id)))
                .copied()
                .collect::<BTreeSet<usize>>();
            let after = after.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let after = if after.is_empty() { "-" } else { &after };
            let line = format!(
                "{number:>4}  {:<27} {:<names$}  {after:<7} {}",
                step.call.name,
                step.id,
                disruption_word(step.disruption)
            );
            let is_write = step.kind == "write";
            let line = if is_write { self.styled(line.trim_end(), DIM) } else { line };
            self.line(&line);
        }
        self.line("");
    }

    fn summary(&mut self, document: &Document) {
        if document.has_changes() && document.summary.changing_calls > 0 {
            let summary = &document.summary;
            let mut cost = format!(
                "Cost: {}, about {}, at most {}, {}",
                counted(summary.changing_calls, "changing call"),
                counted(summary.polls_estimate, "status poll"),
                counted(summary.router_reloads, "router reload"),
                counted(summary.cuts, "cut"),
            );
            if summary.address_changes > 0 {
                // Writing to a String can't fail.
                let _ = write!(cost, ", {}", counted(summary.address_changes, "address change"));
            }
            self.line(&format!("{cost}."));
        }
        let writes = document.summary.kubernetes_writes > 0 && document.has_changes();
        if document.scope.mode == Mode::Manifests && writes {
            self.line("Writes to Kubernetes are shown and not counted: Services come from files.");
        }
        self.line(&self.styled(&summary_line(document), BOLD));
    }

    fn styled(&self, text: &str, style: &str) -> String {
        match self.colour {
            Colour::Never => text.to_owned(),
            Colour::Always => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
        }
    }
}

/// The changes of a Service. Where nothing keeps writes, they are worth a line only beside others.
fn shown<'d>(document: &'d Document, service: &str) -> Vec<&'d Change> {
    let changes = document.changes.iter().filter(|change| change.service == service);
    let changes: Vec<&Change> = changes.collect();
    let only_writes = changes.iter().all(|change| change.operation == Operation::Write);
    if document.scope.mode == Mode::Manifests && only_writes { Vec::new() } else { changes }
}

/// The steps that a step waits for, without those that the others among them wait for.
fn immediate<'d>(step: &'d StepView, steps: &'d [StepView]) -> Vec<&'d str> {
    let waits_for = |id: &str| {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![id.to_owned()];
        while let Some(next) = open.pop() {
            let same = |other: &&StepView| other.service == step.service && other.id == next;
            for id in steps.iter().find(same).into_iter().flat_map(|other| &other.after) {
                if found.insert(id) {
                    open.push(id.clone());
                }
            }
        }
        found
    };
    let implied: BTreeSet<&str> = step.after.iter().flat_map(|id| waits_for(id)).collect();
    step.after.iter().map(String::as_str).filter(|id| !implied.contains(id)).collect()
}

/// Breaks a text between words; a word that is longer than a line has one of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_inclusive(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.trim_end().chars().count() <= width => {
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn disruption_word(disruption: Disruption) -> &'static str {
    match disruption {
        Disruption::None => "",
        Disruption::Reload => "reload",
        Disruption::Cut => "cut",
        Disruption::AddressChange => "address change",
    }
}
