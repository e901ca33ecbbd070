//! Reading a list page by page, and whether the pages add up. Pure.
//!
//! Without `page` and `pagesize` a list is cut at 500 rows while `count` tells the truth
//! (observed), and rows may move between pages while they are read. A set of pages is complete
//! only if it holds as many entries as `count` says on every page, and none twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::envelope::Object;

/// A list that never ends is not believed.
const MOST_PAGES: u32 = 10_000;

/// One attempt at reading a list.
#[derive(Debug)]
pub(crate) struct Pages {
    size: u32,
    page: u32,
    count: Option<u64>,
    entries: Vec<Value>,
    ids: BTreeSet<String>,
}

/// What to do after a page.
#[derive(Debug, PartialEq)]
pub(crate) enum PageStep {
    /// Ask for this page.
    Next(u32),
    /// The list.
    Complete(Vec<Value>),
    /// Begin again; why.
    Inconsistent(String),
}

impl Pages {
    /// Starts with page 1 of pages of `size`.
    pub(crate) fn new(size: u32) -> Self {
        Self { size: size.max(1), page: 1, count: None, entries: Vec::new(), ids: BTreeSet::new() }
    }

    /// Takes the page that was asked for. An empty list is `{}`, and a page behind the end has
    /// `count` without array.
    pub(crate) fn handle_page(&mut self, object: &Object, array: &str) -> PageStep {
        let count = match object.get("count").map(count) {
            Some(None) => return inconsistent("`count` is no number".to_owned()),
            Some(count) => count,
            None => None,
        };
        let empty = Vec::new();
        let rows = match object.get(array) {
            Some(Value::Array(rows)) => rows,
            Some(_) => return inconsistent(format!("`{array}` is no array")),
            None if count.is_some() || object.is_empty() => &empty,
            None => return inconsistent(format!("there is neither `{array}` nor `count`")),
        };
        if self.page > 1 && count != self.count {
            let (before, now) = (shown(self.count), shown(count));
            return inconsistent(format!("count changed from {before} to {now}"));
        }
        self.count = count;
        for row in rows {
            let id = row.get("id").and_then(Value::as_str);
            if id.is_some_and(|id| !self.ids.insert(id.to_owned())) {
                return inconsistent("an id is listed twice".to_owned());
            }
        }
        self.entries.extend_from_slice(rows);
        self.judge(u32::try_from(rows.len()).unwrap_or(u32::MAX))
    }

    fn judge(&mut self, rows: u32) -> PageStep {
        let found = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let asked = u64::from(self.page) * u64::from(self.size);
        let complete = match self.count {
            Some(count) if found > count || (found < count && (rows == 0 || asked >= count)) => {
                return inconsistent(format!("count is {count}, the pages hold {found}"));
            }
            Some(count) => found == count,
            // No `count`: `{}` is the empty list, else a short page is the last.
            None => rows < self.size,
        };
        if complete {
            return PageStep::Complete(std::mem::take(&mut self.entries));
        }
        if self.page >= MOST_PAGES {
            return inconsistent(format!("it has more than {MOST_PAGES} pages"));
        }
        self.page += 1;
        PageStep::Next(self.page)
    }
}

fn inconsistent(found: String) -> PageStep {
    PageStep::Inconsistent(found)
}

fn shown(count: Option<u64>) -> String {
    count.map_or_else(|| "none".to_owned(), |count| count.to_string())
}

fn count(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(count: Option<u64>, ids: &[&str]) -> Object {
        let mut object = Object::new();
        if let Some(count) = count {
            object.insert("count".to_owned(), json!(count));
        }
        if !ids.is_empty() {
            let rows: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
            object.insert("zone".to_owned(), Value::Array(rows));
        }
        object
    }

    fn run(size: u32, answers: &[Object]) -> PageStep {
        let mut pages = Pages::new(size);
        let mut answers = answers.iter();
        loop {
            let step = pages.handle_page(answers.next().expect("asked once more"), "zone");
            if !matches!(step, PageStep::Next(_)) {
                assert_eq!(answers.next(), None, "pages left over");
                return step;
            }
        }
    }

    fn complete(step: &PageStep) -> usize {
        match step {
            PageStep::Complete(entries) => entries.len(),
            PageStep::Next(_) | PageStep::Inconsistent(_) => panic!("{step:?}"),
        }
    }

    fn reason(step: PageStep) -> String {
        match step {
            PageStep::Inconsistent(found) => found,
            PageStep::Next(_) | PageStep::Complete(_) => panic!("{step:?}"),
        }
    }

    #[test]
    fn complete_lists() {
        assert_eq!(complete(&run(2, &[page(None, &[])])), 0);
        assert_eq!(complete(&run(2, &[page(Some(0), &[])])), 0);
        assert_eq!(complete(&run(2, &[page(Some(2), &["a", "b"])])), 2);
        let three = [page(Some(3), &["a", "b"]), page(Some(3), &["c"])];
        assert_eq!(complete(&run(2, &three)), 3);
    }

    #[test]
    fn a_list_without_count_ends_with_a_short_page() {
        let pages = [page(None, &["a", "b"]), page(None, &["c"])];
        assert_eq!(complete(&run(2, &pages)), 3);
    }

    #[test]
    fn a_short_page_in_the_middle_is_not_the_end() {
        let pages = [page(Some(3), &["a"]), page(Some(3), &["b"])];
        assert_eq!(reason(run(2, &pages)), "count is 3, the pages hold 2");
    }

    #[test]
    fn duplicates_missing_rows_and_moving_counts_are_refused() {
        let twice = [page(Some(3), &["a", "b"]), page(Some(3), &["b"])];
        assert_eq!(reason(run(2, &twice)), "an id is listed twice");
        let moved = [page(Some(3), &["a", "b"]), page(Some(4), &["c"])];
        assert_eq!(reason(run(2, &moved)), "count changed from 3 to 4");
        let gone = [page(Some(3), &["a", "b"]), page(None, &[])];
        assert_eq!(reason(run(2, &gone)), "count changed from 3 to none");
        let behind = [page(Some(3), &["a", "b"]), page(Some(3), &[])];
        assert_eq!(reason(run(2, &behind)), "count is 3, the pages hold 2");
        let no_rows = [page(Some(3), &[])];
        assert_eq!(reason(run(500, &no_rows)), "count is 3, the pages hold 0");
        let more = [page(Some(1), &["a", "b"])];
        assert_eq!(reason(run(500, &more)), "count is 1, the pages hold 2");
    }

    #[test]
    fn an_answer_that_is_no_list_is_no_empty_list() {
        for (answer, found) in [
            (json!({"zones": []}), "there is neither `zone` nor `count`"),
            (json!({"count": null}), "`count` is no number"),
            (json!({"count": 1, "zone": {}}), "`zone` is no array"),
        ] {
            assert_eq!(reason(run(2, &[answer.as_object().unwrap().clone()])), found);
        }
    }

    #[test]
    fn a_server_that_ignores_paging_is_believed_if_it_adds_up() {
        assert_eq!(complete(&run(2, &[page(Some(3), &["a", "b", "c"])])), 3);
    }
}
