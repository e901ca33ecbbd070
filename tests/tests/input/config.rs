//! The cloud-config, the file of the `cs` tool, and the environment.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ccm_tests::garble::{garble, garbles};
use cloudstack_ccm::config::{Config, Overrides, Setting};
use proptest::collection::btree_map;
use proptest::prelude::*;
use proptest::sample::select;

use crate::{File, cases, chain};

const KEY: &str =
    "AKtest-0123-4567_Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0LzZx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0LzZx9Qw";
const SECRET: &str =
    "SKsecret-4242-4343-Mn1Bv2Cx3Zl4Kj5Hg6Fd7Sa8Po9Iu0YtMn1Bv2Cx3Zl4Kj5Hg6Fd7Sa8Po9Iu0YtMn1";

static OURS: LazyLock<String> =
    LazyLock::new(|| OURS_SHORT.replace("AKtest", KEY).replace("SKsecret", SECRET));
const OURS_SHORT: &str = "; a comment\n[Global]\napi-url = https://cloud.example/client/api\n\
    api-key = \"AKtest\"\nsecret-key = SKsecret # here\nproject-id = 11111111-2222\n\
    ssl-no-verify = false\nrequest-timeout = 1m30s\npage-size = 200\ncluster-name = \"a \\\"b\\\" \\\\ c\"\n";

static CS: LazyLock<String> =
    LazyLock::new(|| CS_SHORT.replace("AKtest", KEY).replace("SKsecret", SECRET));
const CS_SHORT: &str = "[cloudstack]\nendpoint = https://cloud.example/client/api\nkey = AKtest\n\
    secret = SKsecret\nverify = /etc/ca.pem\nretry = 3\n\n[other]\nkey = x\n$%&\n";

/// Checks what is said of a file.
fn judge(bytes: &[u8]) -> Result<(), TestCaseError> {
    let file = File::new("cloud.conf");
    let path = file.write(bytes);
    match Config::load(Some(path), &BTreeMap::new(), &Overrides::default()) {
        Ok((config, warnings)) => {
            let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            let told = format!("{config:?} {shown:?}");
            prop_assert!(!told.contains(SECRET), "{told}");
        }
        Err(errors) => {
            let told = errors.to_string();
            prop_assert!(told.contains(&path.display().to_string()), "{told}");
            for error in errors.iter() {
                let text = error.to_string();
                let placed =
                    text.contains("line ") || text.contains('`') || text.contains("[Global]");
                prop_assert!(placed || text.contains("can't read"), "no place: {text}");
            }
            prop_assert!(!told.contains(SECRET) && !told.contains(KEY), "{told}");
            prop_assert!(told.len() < 8_000, "{told}");
        }
    }
    Ok(())
}

#[test]
fn the_examples_are_good() {
    for text in [&*OURS, &*CS] {
        Config::read(text, &BTreeMap::new(), &Overrides::default()).expect(text);
    }
}

#[test]
fn a_file_that_is_no_text_is_told_with_its_place_and_what_to_do() {
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(OURS.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let broken = OURS.replace("cluster-name = \"a", "cluster-name = \"\u{1}").into_bytes();
    let broken: Vec<u8> = broken.iter().map(|byte| if *byte == 1 { 0xff } else { *byte }).collect();
    for (bytes, words) in [
        (utf16, ["UTF-16", "save it as UTF-8"]),
        (broken, ["line 10, byte 17", "save the file as UTF-8"]),
        (vec![b'#'; 70_000], ["more than 65536 bytes", "--cloud-config"]),
    ] {
        let file = File::new("no-text.conf");
        let path = file.write(&bytes);
        let errors = Config::load(Some(path), &BTreeMap::new(), &Overrides::default());
        let told = chain(&errors.expect_err("no text"));
        for word in words {
            assert!(told.contains(word), "{word}: {told}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_is_not_read_to_it() {
    let endless = std::path::Path::new("/dev/zero");
    let errors = Config::load(Some(endless), &BTreeMap::new(), &Overrides::default());
    assert!(errors.unwrap_err().to_string().contains("more than 65536 bytes"));
}

#[test]
fn thousands_of_mistakes_are_a_short_text() {
    let text = format!("[Global]\n{}", "what = ever\nno line\n".repeat(1000));
    let told =
        Config::read(&text, &BTreeMap::new(), &Overrides::default()).unwrap_err().to_string();
    assert!(told.contains("line 2: ") && told.ends_with("more"), "{told}");
    assert!(told.lines().count() <= 22, "{told}");
}

#[test]
fn a_variable_that_is_no_unicode_is_named_and_not_shown() {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let env = BTreeMap::from([
        variable("CLOUDSTACK_ENDPOINT", "https://cloud.example/client/api"),
        variable("CLOUDSTACK_KEY", KEY),
        variable("CLOUDSTACK_SECRET", "SKsecret\u{fffd}4242"),
        variable("CLOUDSTACK_CLUSTER_NAME", "a\u{fffd}"),
    ]);
    let told = Config::read("", &env, &Overrides::default()).unwrap_err().to_string();
    for word in ["CLOUDSTACK_SECRET: `secret-key`", "CLOUDSTACK_CLUSTER_NAME", "no UTF-8"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("SKsecret"), "{told}");
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn a_garbled_file_is_read_or_refused(ours in any::<bool>(), changes in garbles()) {
        judge(&garble(if ours { &OURS } else { &CS }.as_bytes(), &changes))?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        judge(&bytes)?;
        judge(&[b"[Global]\n", &bytes[..]].concat())?;
    }

    #[test]
    fn any_environment_is_read_or_refused(
        values in btree_map(select(Setting::ALL.to_vec()), any::<String>(), 0..8),
    ) {
        let set = values.iter().map(|(setting, value)| (setting.spec().env.to_owned(), value.clone()));
        let secret = (Setting::SecretKey.spec().env.to_owned(), SECRET.to_owned());
        let env: BTreeMap<String, String> = set.chain([secret]).collect();
        if let Err(errors) = Config::read("", &env, &Overrides::default()) {
            for error in errors.iter().map(ToString::to_string) {
                prop_assert!(error.contains('`') && error.len() < 500, "{error}");
                prop_assert!(!error.contains(SECRET), "{error}");
            }
        }
    }
}
