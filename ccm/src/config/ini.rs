//! Reads the INI dialect of the Go controller (gcfg), which is that of git's configuration:
//! `[section]`, `key = value`, comments after `;` or `#`, values in double quotes with escapes, a key
//! alone for a boolean that is true.
//!
//! Nothing of a line that can't be read is repeated in a mistake: it may hold a secret.

use std::rc::Rc;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The section, as written; empty before the first.
    pub(super) section: Rc<str>,
    /// The key, as written.
    pub(super) key: String,
    /// The value; `None` for a key alone.
    pub(super) value: Option<String>,
    /// Counted from 1.
    pub(super) line: usize,
}

/// A line that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    /// The section that it stands in.
    pub(super) section: Rc<str>,
    /// Counted from 1.
    pub(super) line: usize,
    /// What is wrong with it.
    pub(super) why: &'static str,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    /// The sections, with the line of each.
    pub(super) sections: Vec<(Rc<str>, usize)>,
    /// The keys, in order.
    pub(super) entries: Vec<Entry>,
    /// What can't be read, in order.
    pub(super) bad: Vec<BadLine>,
}

/// Reads a file.
pub(super) fn parse(text: &str) -> File {
    let mut file = File::default();
    let mut section = Rc::<str>::from("");
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, content) in text.lines().enumerate() {
        let line = index.saturating_add(1);
        match parse_line(content.trim()) {
            Ok(Line::Empty) => {}
            Ok(Line::Section(name)) => {
                section = Rc::from(name);
                file.sections.push((Rc::clone(&section), line));
            }
            Ok(Line::Key(key, value)) => {
                file.entries.push(Entry { section: Rc::clone(&section), key, value, line });
            }
            Err(why) => file.bad.push(BadLine { section: Rc::clone(&section), line, why }),
        }
    }
    file
}

enum Line {
    Empty,
    Section(String),
    Key(String, Option<String>),
}

fn parse_line(line: &str) -> Result<Line, &'static str> {
    if line.is_empty() || line.starts_with([';', '#']) {
        return Ok(Line::Empty);
    }
    if let Some(rest) = line.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or("a section has no closing bracket")?;
        let after = after.trim_start();
        if !after.is_empty() && !after.starts_with([';', '#']) {
            return Err("something follows a section on its line");
        }
        return Ok(Line::Section(name.trim().to_owned()));
    }
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key, Some(parse_value(value)?)),
        None => (line.split([';', '#']).next().unwrap_or_default(), None),
    };
    let key = key.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if key.is_empty() || !key.chars().all(allowed) {
        return Err("expected `key = value`");
    }
    Ok(Line::Key(key.to_owned(), value))
}

/// Blanks around a value don't belong to it, unless they stand in quotes.
fn parse_value(text: &str) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut end = 0;
    let mut quoted = false;
    let mut chars = text.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => value.push(match chars.next() {
                Some('\\') => '\\',
                Some('"') => '"',
                Some('n') => '\n',
                Some('t') => '\t',
                Some(_) => return Err("a backslash stands before something else than `\\`, `\"`, `n` or `t`; double it"),
                None => return Err("a backslash ends the line; a value must stand on one line"),
            }),
            ';' | '#' if !quoted => break,
            other => value.push(other),
        }
        if quoted || !c.is_whitespace() {
            end = value.len();
        }
    }
    if quoted {
        return Err("a quote is not closed on its line");
    }
    value.truncate(end);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Option<String> {
        let file = parse(&format!("[Global]\nk = {text}\n"));
        assert!(file.bad.is_empty(), "{text}: {:?}", file.bad);
        file.entries[0].value.clone()
    }

    #[test]
    fn values_are_read_as_gcfg_reads_them() {
        for (text, expected) in [
            ("a b  ", "a b"),
            ("a ; comment", "a"),
            ("a # comment", "a"),
            ("a;b", "a"),
            (r#""a ; b" ; comment"#, "a ; b"),
            (r#""  a ""#, "  a "),
            (r#"x" y "z"#, "x y z"),
            (r#""say \"hi\" \\ \t""#, "say \"hi\" \\ \t"),
            ("", ""),
            (r#""""#, ""),
            ("a=b==", "a=b=="),
        ] {
            assert_eq!(value(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn sections_comments_and_lines_are_kept_apart() {
        let text = "\u{feff}; first\r\n[ Global ] # here\r\nKey=v\r\n\r\n# more\r\nflag\r\nflag2 ; on\r\n[b]\nk = 1";
        let file = parse(text);
        assert_eq!(file.sections, [(Rc::from("Global"), 2), (Rc::from("b"), 8)]);
        let read: Vec<_> = file
            .entries
            .iter()
            .map(|entry| (&*entry.section, entry.key.as_str(), entry.value.as_deref(), entry.line))
            .collect();
        assert_eq!(
            read,
            [
                ("Global", "Key", Some("v"), 3),
                ("Global", "flag", None, 6),
                ("Global", "flag2", None, 7),
                ("b", "k", Some("1"), 9)
            ]
        );
    }

    #[test]
    fn a_bad_line_is_told_without_what_it_holds() {
        for text in [
            "[Global",
            "[a] b",
            "secret key s3cr3t",
            "= v",
            "k = \"open",
            "k = a\\",
            "k = a\\x",
            "ke y = v",
        ] {
            let file = parse(text);
            assert_eq!(file.bad.len(), 1, "{text}");
            assert!(!file.bad[0].why.contains("s3cr3t"));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), lines in "[a-z=\"\\\\;#\\[\\] \n]{0,60}") {
            let _ = parse(&text);
            let _ = parse(&lines);
        }

        #[test]
        fn a_quoted_value_is_read_back(value in "[ -~]{0,30}") {
            let quoted = value.replace('\\', r"\\").replace('"', "\\\"");
            let file = parse(&format!("k = \"{quoted}\""));
            prop_assert_eq!(file.entries[0].value.as_deref(), Some(value.as_str()));
        }
    }
}
