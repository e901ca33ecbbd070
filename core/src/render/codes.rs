//! The reference of codes: what stands in plans, events and metrics.

use std::fmt::Write as _;

use crate::plan::check::LAWS;
use crate::plan::reason::Reason;
use crate::plan::report::{Note, Severity};

/// The page `deploy/docs/codes.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Codes\n\n<!-- Generated from core/src/plan/{reason,report}.rs and check/mod.rs; tests/tests/docs.rs compares. -->\n\n\
         Codes are never re-used. Words in braces stand for what a plan found.\n\n\
         ## Why a step is planned\n\n| Code | Sentence |\n|---|---|\n",
    );
    for (code, sentence) in Reason::CODES {
        row(&mut page, &[code, sentence]);
    }
    page.push_str("\n## Why something is not planned\n\n");
    page.push_str(
        "Blocked: refused until somebody changes something; looked at again after 5 minutes. Waiting: \
         looked at again soon. Left alone: seen, not ours.\n\n",
    );
    page.push_str("| Code | Severity | Sentence |\n|---|---|---|\n");
    for (code, severity, sentence) in Note::CODES {
        row(&mut page, &[code, severity_word(*severity), sentence]);
    }
    page.push_str(
        "\n## Laws of order\n\nEvery plan keeps them; it can be stopped after any step.\n\n",
    );
    page.push_str("| Law | Why |\n|---|---|\n");
    for law in LAWS {
        row(&mut page, &[law.name, law.why]);
    }
    page
}

fn row(page: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    // Writing to a String can't fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Blocked => "blocked",
        Severity::Waiting => "waiting",
        Severity::Warning => "warning",
        Severity::LeftAlone => "left alone",
    }
}
