//! What a person most likely meant by an unknown word.

/// The candidate with the fewest edits between it and `word`, upper and lower case and `_` and `-`
/// being alike; the first of equals. `None` only if there are no candidates.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    candidates.into_iter().min_by_key(|candidate| strsim::osa_distance(&word, &plain(candidate)))
}

fn plain(word: &str) -> String {
    word.chars()
        .take(100)
        .map(|c| match c {
            '_' | '.' => '-',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_with_the_fewest_edits_is_named() {
        let known = ["api-url", "api-key", "secret-key"];
        assert_eq!(nearest("api_key", known), Some("api-key"));
        assert_eq!(nearest("APIURL", known), Some("api-url"));
        assert_eq!(nearest("secert-key", known), Some("secret-key"));
        assert_eq!(nearest("x", []), None);
    }
}
