//! Where words go: results to stdout, everything else to stderr.

use std::io::{self, IsTerminal as _, Write as _};

use ccm_core::render::human::Colour;

use crate::cli::When;

/// Stdout and stderr, and how to use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Whether stdout takes colour.
    pub(crate) colour: Colour,
    /// Whether stderr takes colour.
    pub(crate) colour_aside: Colour,
}

impl Console {
    /// `no_color` is whether `NO_COLOR` is set to anything but an empty text.
    pub(crate) fn new(when: When, no_color: bool) -> Self {
        Self {
            colour: choose(when, io::stdout().is_terminal(), no_color),
            colour_aside: choose(when, io::stderr().is_terminal(), no_color),
        }
    }

    /// Writes a result to stdout. A reader that went away has seen enough: that is no error.
    ///
    /// # Errors
    /// If stdout can't be written to for another reason, such as a full disk.
    #[expect(clippy::unused_self, reason = "who has no console says nothing")]
    pub(crate) fn print(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Writes a line to stderr. Nobody can be told that this failed.
    #[expect(clippy::unused_self, reason = "who has no console says nothing")]
    pub(crate) fn say(self, line: &str) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "{line}");
    }
}

fn choose(when: When, terminal: bool, no_color: bool) -> Colour {
    match when {
        When::Always => Colour::Always,
        When::Auto if terminal && !no_color => Colour::Always,
        When::Auto | When::Never => Colour::Never,
    }
}

/// A text in a style of ANSI escapes, if colour is on.
pub(crate) fn styled(text: &str, style: &str, colour: Colour) -> String {
    match colour {
        Colour::Never => text.to_owned(),
        Colour::Always => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_on_a_terminal_and_without_no_color() {
        assert_eq!(choose(When::Auto, true, false), Colour::Always);
        assert_eq!(choose(When::Auto, true, true), Colour::Never);
        assert_eq!(choose(When::Auto, false, false), Colour::Never);
        assert_eq!(choose(When::Always, false, true), Colour::Always);
        assert_eq!(choose(When::Never, true, false), Colour::Never);
    }
}
