//! The bytes of a file → its text, or why they are none.

use thiserror::Error;

/// Why bytes are not the text that was expected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotText {
    /// More than anybody writes.
    #[error("it has more than {limit} bytes, the most that is read of such a file")]
    TooLong {
        /// In bytes.
        limit: usize,
    },
    /// As some editors and shells of Windows write files.
    #[error("it is UTF-16; save it as UTF-8")]
    Utf16,
    /// Something else.
    #[error("line {line}, byte {byte}: no UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// Counted from 1.
        line: usize,
        /// In that line, counted from 1.
        byte: usize,
    },
}

/// The text of at most `limit` bytes, without a byte order mark.
///
/// # Errors
/// [`NotText`], which says where and what to do, and nothing of what stands there.
pub fn decode(bytes: Vec<u8>, limit: usize) -> Result<String, NotText> {
    if bytes.len() > limit {
        return Err(NotText::TooLong { limit });
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(NotText::Utf16);
    }
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..valid).unwrap_or_default();
        let lines = before.split(|byte| *byte == b'\n');
        let (line, last) = lines.enumerate().last().unwrap_or_default();
        NotText::NotUtf8 { line: line.saturating_add(1), byte: last.len().saturating_add(1) }
    })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let decode = |bytes: &[u8]| decode(bytes.to_vec(), 10);
        assert_eq!(decode(b"a\r\nb").unwrap(), "a\r\nb");
        assert_eq!(decode("\u{feff}a".as_bytes()).unwrap(), "a");
        assert_eq!(decode(b"").unwrap(), "");
        assert_eq!(decode(b"a\nbc\xffd"), Err(NotText::NotUtf8 { line: 2, byte: 3 }));
        assert_eq!(decode(b"\xc3"), Err(NotText::NotUtf8 { line: 1, byte: 1 }));
        assert_eq!(decode(b"\xff\xfea\0"), Err(NotText::Utf16));
        assert_eq!(decode(&[b'a'; 11]), Err(NotText::TooLong { limit: 10 }));
    }
}
