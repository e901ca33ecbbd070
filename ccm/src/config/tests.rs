//! Configurations as people write them.

use proptest::prelude::*;

use super::*;

const GOOD: &str = "
[Global]
api-url = https://cloud.example.com/client/api
api-key = the-api-key
secret-key = the-secret-key
";

fn env(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(text: &str) -> Result<(Config, Vec<Warning>), ConfigErrors> {
    Config::read(text, &BTreeMap::new(), &Overrides::default())
}

fn good(text: &str) -> (Config, Vec<Warning>) {
    read(text).unwrap()
}

fn with(line: &str) -> Result<(Config, Vec<Warning>), ConfigErrors> {
    read(&format!("{GOOD}{line}\n"))
}

fn refusal(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn the_file_of_the_go_controller_is_read() {
    let (config, warnings) = good(
        "[Global]\napi-url = \"https://cloud.example.com/client/api\" ; the API\napi-key = k\nsecret-key = s\n\
         project-id = 5c8b\nzone = zone 1\nregion =\nssl-no-verify = false\n",
    );
    assert!(warnings.is_empty());
    assert_eq!(config.api_url.as_str(), "https://cloud.example.com/client/api");
    assert_eq!(config.credentials.api_key(), "k");
    assert_eq!(config.project.as_ref().map(ProjectId::as_str), Some("5c8b"));
    assert_eq!(config.zone.as_deref(), Some("zone 1"));
    assert_eq!((config.region, config.cluster_id), (None, None));
    assert_eq!(config.tls, Tls::System);
    assert_eq!(config.job_timeout, Duration::from_mins(10));
    assert_eq!(config.page_size, 500);
    assert!(!config.get_if_post_refused);
}

#[test]
fn defaults_are_those_of_the_policy() {
    let (config, _) = good(GOOD);
    let id = ClusterId::parse("prod").unwrap();
    assert_eq!(config.policy(id.clone()), Policy::new(id));
}

#[test]
fn every_setting_of_ours_arrives() {
    let (config, warnings) = with(
        "ca-file = /etc/ca.pem\ncluster-id = prod\ncluster-name = shop\nownership-tags = on\nadopt-unrecorded-addresses = keep\n\
         source-ranges-mode = strict\nudp-on-router = try\nnode-readiness = ready\nrequest-timeout = 5s\nconnect-timeout = 500ms\n\
         job-timeout = 1h30m\npage-size = 100\nproject-id = p1\n",
    )
    .unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.tls, Tls::CaFile("/etc/ca.pem".into()));
    assert_eq!(config.request_timeout, Duration::from_secs(5));
    assert_eq!(config.connect_timeout, Duration::from_millis(500));
    assert_eq!(config.job_timeout, Duration::from_mins(90));
    assert_eq!(config.page_size, 100);
    let policy = config.policy(config.cluster_id.clone().unwrap());
    assert_eq!((policy.cluster_id.as_str(), policy.cluster_name.as_str()), ("prod", "shop"));
    assert!(policy.ownership_tags && policy.project.is_some());
    assert_eq!(policy.adopt_unrecorded_addresses, AdoptUnrecorded::Keep);
    assert_eq!(policy.source_ranges_mode, SourceRangesMode::Strict);
    assert_eq!(policy.udp_on_router, UdpOnRouter::Try);
    assert_eq!(policy.node_readiness, NodeReadiness::Ready);
}

#[test]
fn keys_in_urls_are_warned_of() {
    let (config, warnings) = with("get-if-post-refused = on\n").unwrap();
    assert!(config.get_if_post_refused);
    assert_eq!(warnings, [Warning::KeysInUrls]);
}

#[test]
fn the_file_of_the_cs_tool_is_read_and_its_other_keys_are_ignored() {
    let (config, warnings) = good(
        "[exoscale]\nendpoint = https://elsewhere/x\nkey = other\nbroken line\n\
         [cloudstack]\nendpoint = https://cloud.example.com/client/api\nkey = k\nsecret = s\ntimeout = 20\n\
         method = post\nverify = /ca.pem\nheader_x = y\n",
    );
    assert_eq!(config.credentials.api_key(), "k");
    assert_eq!(warnings.len(), 1);
    insta::assert_snapshot!(warnings[0], @"timeout, method, verify, header_x mean something to the cs tool only and have no effect; see ca-file, ssl-no-verify and the timeouts");
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let variables = env(&[
        ("CLOUDSTACK_KEY", "env-key"),
        ("CLOUDSTACK_ZONE", "env-zone"),
        ("CLOUDSTACK_PROJECT_ID", "env-project"),
        ("CLOUDSTACK_JOB_TIMEOUT", ""),
        ("CLOUDSTACK_SERVICE_HOST", "10.96.0.7"),
        ("CLOUDSTACK_PORT", "tcp://10.96.0.7:80"),
        ("CLOUDSTACK_TIMEOUT", "9"),
    ]);
    let mut flags = Overrides::default();
    flags.set(Setting::Zone, "flag-zone").unwrap();
    let (config, warnings) = Config::read(GOOD, &variables, &flags).unwrap();
    assert!(warnings.is_empty());
    assert_eq!(config.credentials.api_key(), "env-key");
    assert_eq!(config.credentials.secret_key(), "the-secret-key");
    assert_eq!(config.zone.as_deref(), Some("flag-zone"));
    let shown: Vec<String> = config.effective.iter().map(Effective::to_string).collect();
    assert_eq!(
        shown,
        [
            "api-url = https://cloud.example.com/client/api (line 3)",
            "api-key = (hidden) (environment variable CLOUDSTACK_KEY)",
            "secret-key = (hidden) (line 5)",
            "project-id = env-project (environment variable CLOUDSTACK_PROJECT_ID)",
            "zone = flag-zone (flag --zone)",
        ]
    );
    for secret in [Setting::ApiKey, Setting::SecretKey] {
        assert_eq!(flags.set(secret, "x"), Err(NoFlag(secret)));
    }
}

#[test]
fn the_environment_alone_suffices() {
    let variables = env(&[
        ("CLOUDSTACK_ENDPOINT", "https://cloud.example.com/client/api"),
        ("CLOUDSTACK_KEY", "k"),
        ("CLOUDSTACK_SECRET", "s"),
        ("CLOUDSTACK_REGION", "exoscale"),
    ]);
    let (config, warnings) = Config::load(None, &variables, &Overrides::default()).unwrap();
    assert_eq!(config.region, None);
    assert_eq!(warnings, [Warning::CsRegion]);
}

#[test]
fn c007_all_mistakes_are_told_in_one_message_without_secrets() {
    let text = "[Global]\napi-url = https://cloud.example.com/client/api\napi_key = k1\nssl-no-verify = maybe\n";
    insta::assert_snapshot!(refusal(text), @r#"
    the configuration can't be used:
      line 3: unknown key "api_key"; the nearest known one is `api-key`
      line 4: `ssl-no-verify` is "maybe", which is no boolean; write `true` or `false`
      `secret-key` is missing; set it in section [Global], or as environment variable CLOUDSTACK_SECRET
    "#);
    assert!(!refusal(text).contains("k1"));
}

#[test]
fn c007_a_missing_file_is_named() {
    let path = Path::new("/etc/nowhere/cloud-config");
    let told =
        Config::load(Some(path), &BTreeMap::new(), &Overrides::default()).unwrap_err().to_string();
    assert!(told.contains("can't read /etc/nowhere/cloud-config"), "{told}");
    assert!(told.contains("--cloud-config"), "{told}");
}

#[test]
fn nothing_at_all_names_what_is_required() {
    insta::assert_snapshot!(refusal(""), @"
    the configuration can't be used:
      `api-url` is missing; set it in section [Global], or as environment variable CLOUDSTACK_ENDPOINT
      `api-key` is missing; set it in section [Global], or as environment variable CLOUDSTACK_KEY
      `secret-key` is missing; set it in section [Global], or as environment variable CLOUDSTACK_SECRET
    ");
}

#[test]
fn odd_structure_is_told_with_its_line() {
    let text = "api-url = x\n[Gobal]\napi-key = k\n[Global]\nsecret key = s\nzone\nssl-no-verify\n";
    insta::assert_snapshot!(refusal(text), @r#"
    the configuration can't be used:
      line 1: a key stands before the first section; write [Global] above it
      line 2: unknown section "Gobal"; the settings stand in [Global]
      line 5: expected `key = value`
      line 6: expected `key = value`
      `api-url` is missing; set it in section [Global], or as environment variable CLOUDSTACK_ENDPOINT
      `api-key` is missing; set it in section [Global], or as environment variable CLOUDSTACK_KEY
      `secret-key` is missing; set it in section [Global], or as environment variable CLOUDSTACK_SECRET
    "#);
    assert!(refusal(&format!("{GOOD}[cloudstack]\n")).contains("[Global] and [cloudstack] both"));
}

#[test]
fn a_secret_in_the_wrong_place_is_not_shown() {
    let secret = "A".repeat(86);
    for text in [
        format!("[Global]\napi-url = {secret}\napi-key = k1k1k1\nsecret-key = {secret}\n"),
        format!("[Global]\nsecret-key =\n  {secret}\n"),
        format!("[Global]\n{secret} =\n"),
        format!("[Global]\nsecret-key {secret}\n"),
        format!("[{secret}]\n"),
        format!("{GOOD}page-size = the-secret-key\n"),
        "[Global]\napi-url = https://u:the-secret-key@h/x\n".to_owned(),
    ] {
        let told = refusal(&text);
        let debug = format!("{:?}", read(&text).unwrap_err());
        for shown in [told, debug] {
            assert!(!shown.contains(&secret) && !shown.contains("the-secret-key"), "{shown}");
        }
    }
    let (config, _) = good(GOOD);
    let debug = format!("{config:?}");
    assert!(!debug.contains("the-api-key") && !debug.contains("the-secret-key"), "{debug}");
}

#[test]
fn the_key_of_a_boolean_alone_means_yes() {
    let (config, _) = with("ownership-tags\nget-if-post-refused\nssl-no-verify").unwrap();
    assert!(config.ownership_tags && config.get_if_post_refused);
    assert_eq!(config.tls, Tls::NoVerification);
    assert!(with("zone").is_err());
}

#[test]
fn risky_settings_work_with_a_warning() {
    let (config, warnings) = with("ssl-no-verify = yes").unwrap();
    assert_eq!(config.tls, Tls::NoVerification);
    assert_eq!(warnings, [Warning::NoVerification]);
    let plain = |host: &str| {
        good(&GOOD.replace("https://cloud.example.com", &format!("http://{host}:8080"))).1
    };
    assert_eq!(plain("cloud.example.com").len(), 1);
    assert!(plain("127.0.0.1").is_empty());
    let (config, warnings) = with("zone = a\nzone = b").unwrap();
    assert_eq!(config.zone.as_deref(), Some("b"));
    assert_eq!(warnings[0].to_string(), "zone is set more than once; line 7 counts");
    assert!(with("ssl-no-verify = on\nca-file = /ca.pem").is_err());
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    let text = format!(
        "{GOOD}page-size = 0\njob-timeout = 1s\nrequest-timeout = 30\nudp-on-router = maybe\nsource-ranges-mode = Strict\n\
         adopt-unrecorded-addresses = yes\ncluster-id = {}\nproject-id = a b\nnode-readiness = true\n",
        "x".repeat(64)
    );
    insta::assert_snapshot!(refusal(&text), @r#"
    the configuration can't be used:
      line 6: `page-size` is "0", which is no number from 1 to 10000
      line 7: `job-timeout` is "1s", which is not within 10s to 24h
      line 8: `request-timeout` is "30", which is no duration; write for example `30s`, within 1s to 10m
      line 9: `udp-on-router` is "maybe", which is neither `refuse` nor `try`
      line 10: `source-ranges-mode` is "Strict", which is neither `layered` nor `strict`
      line 11: `adopt-unrecorded-addresses` is "yes", which is none of `evidence`, `keep` and `release`
      line 12: `cluster-id` is "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", which is no cluster id; write 1 to 63 printable characters without blanks
      line 13: `project-id` is "a b", which is no id; `listProjects` tells it
      line 14: `node-readiness` is "true", which is neither `ignore` nor `ready`
    "#);
}

#[test]
fn each_setting_that_differs_is_named_and_a_running_process_takes_the_live_ones() {
    let (before, _) = good(GOOD);
    let lines = [
        (Setting::ApiUrl, "https://elsewhere.example.com/client/api"),
        (Setting::ApiKey, "another-api-key"),
        (Setting::SecretKey, "another-secret-key"),
        (Setting::ProjectId, "p1"),
        (Setting::Zone, "zone-2"),
        (Setting::Region, "east"),
        (Setting::SslNoVerify, "true"),
        (Setting::CaFile, "/etc/ca.pem"),
        (Setting::ClusterId, "prod"),
        (Setting::ClusterName, "shop"),
        (Setting::OwnershipTags, "on"),
        (Setting::AdoptUnrecordedAddresses, "keep"),
        (Setting::SourceRangesMode, "strict"),
        (Setting::UdpOnRouter, "try"),
        (Setting::NodeReadiness, "ready"),
        (Setting::RequestTimeout, "7s"),
        (Setting::ConnectTimeout, "7s"),
        (Setting::JobTimeout, "7m"),
        (Setting::PageSize, "7"),
        (Setting::GetIfPostRefused, "true"),
    ];
    assert_eq!(lines.map(|(setting, _)| setting), Setting::ALL);
    for (setting, value) in lines {
        let (after, _) = with(&format!("{setting} = {value}")).unwrap();
        assert_eq!(before.differing(&after), [setting].into(), "{setting}");
        let taken = before.with_live_settings_of(&after);
        assert_eq!(taken.differing(&after).is_empty(), setting.is_live(), "{setting}");
        assert_eq!(taken.differing(&before).is_empty(), !setting.is_live(), "{setting}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_no_secret_is_shown(
        lines in proptest::collection::vec("(api-url|api-key|secret-key|key|zone|page-size|[a-z]{1,6}) ?=? ?[a-z0-9:/.\"]{0,12}", 0..8),
        noise in any::<String>(),
    ) {
        let secret = "S3cr3tS3cr3t";
        let text = format!("[Global]\n{}\nsecret-key = {secret}\n{noise}\npage-size = {secret}\n", lines.join("\n"));
        if let Err(errors) = read(&text) {
            prop_assert!(!errors.to_string().contains(secret));
        }
    }
}
