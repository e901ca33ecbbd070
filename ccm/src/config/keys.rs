//! The settings: ONE table. A new setting is a line here and its reading in `mod.rs`.

use std::fmt::{self, Write as _};

use ccm_core::parse::nearest::nearest;

/// A setting, as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its key in the file.
    pub key: &'static str,
    /// Its key in the file of the `cs` tool, where that has another.
    pub cs: Option<&'static str>,
    /// Its environment variable.
    pub env: &'static str,
    /// Whether there is a flag `--<key>`. Secrets have none: everybody can read a command line.
    pub flag: bool,
    /// What its value is, as people read it.
    pub value: &'static str,
    /// What holds where it is not set, as people read it.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
}

macro_rules! settings {
    ($($name:ident = $key:literal, $cs:expr, $env:literal, $flag:literal, $value:literal, $default:literal, $doc:literal;)*) => {
        /// What can be configured.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Setting { $(#[doc = $doc] $name),* }

        impl Setting {
            /// Every setting, in the order of the reference.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its line in the table.
            pub fn spec(self) -> Spec {
                match self {
                    $(Self::$name => Spec {
                        key: $key,
                        cs: $cs,
                        env: $env,
                        flag: $flag,
                        value: $value,
                        default: $default,
                        doc: $doc,
                    }),*
                }
            }
        }
    };
}

settings! {
    ApiUrl = "api-url", Some("endpoint"), "CLOUDSTACK_ENDPOINT", true,
        "`https` or `http` URL with a path", "required",
        "Says where the CloudStack API is, for example `https://cloud.example.com/client/api`.";
    ApiKey = "api-key", Some("key"), "CLOUDSTACK_KEY", false,
        "text", "required",
        "Names the CloudStack user that the controller acts as.";
    SecretKey = "secret-key", Some("secret"), "CLOUDSTACK_SECRET", false,
        "text", "required",
        "Signs the requests of that user.";
    ProjectId = "project-id", None, "CLOUDSTACK_PROJECT_ID", true,
        "CloudStack id", "no project",
        "Limits everything to the project that the nodes are in.";
    Zone = "zone", None, "CLOUDSTACK_ZONE", true,
        "zone name", "each machine's own",
        "Has no effect, and stands in files of the Go controller: each machine tells its own zone.";
    Region = "region", None, "CLOUDSTACK_REGION_LABEL", true,
        "label value", "the zone",
        "Sets the region labels of the nodes; some workloads need them to differ from the zone labels.";
    SslNoVerify = "ssl-no-verify", None, "CLOUDSTACK_SSL_NO_VERIFY", true,
        "boolean", "`false`",
        "Talks to a server that can't prove who it is: whoever is in between can then act as this user; prefer `ca-file`.";
    CaFile = "ca-file", None, "CLOUDSTACK_CA_FILE", true,
        "path of a PEM file", "the system's",
        "Trusts these certificate authorities to vouch for the server.";
    ClusterId = "cluster-id", None, "CLOUDSTACK_CLUSTER_ID", true,
        "1 to 63 characters without blanks", "found in the cluster",
        "Marks what this cluster owns in CloudStack; it must never change and never be shared, and manifest mode needs it.";
    ClusterName = "cluster-name", None, "CLOUDSTACK_CLUSTER_NAME", true,
        "text", "`kubernetes`",
        "Says what the Go controller was told with the same flag: its fork put it into the names of its rules, which are known by it; nothing else depends on it.";
    OwnershipTags = "ownership-tags", None, "CLOUDSTACK_OWNERSHIP_TAGS", true,
        "boolean", "`off`",
        "Tags what is the controller's with `k8s-cluster`, `k8s-service` and `k8s-kind`, one call for each type of object; tags are read in any case, and ownership is known without them.";
    AdoptUnrecordedAddresses = "adopt-unrecorded-addresses", None, "CLOUDSTACK_ADOPT_UNRECORDED_ADDRESSES", true,
        "`evidence`, `keep` or `release`", "`evidence`",
        "Says whether an address that another controller left without a record is released with its Service: if it was allocated for it by all evidence, never, or always.";
    SourceRangesMode = "source-ranges-mode", None, "CLOUDSTACK_SOURCE_RANGES_MODE", true,
        "`layered` or `strict`", "`layered`",
        "Says what `spec.loadBalancerSourceRanges` restricts: the firewall where there is one, or the load balancer rule on every network.";
    UdpOnRouter = "udp-on-router", None, "CLOUDSTACK_UDP_ON_ROUTER", true,
        "`refuse` or `try`", "`refuse`",
        "Says what becomes of a UDP port on a virtual router, which can't balance UDP.";
    NodeReadiness = "node-readiness", None, "CLOUDSTACK_NODE_READINESS", true,
        "`ignore` or `ready`", "`ignore`",
        "Says whether a node that is not ready stays a member of load balancer rules; with `ready` it leaves them, unless no ready node has an address in the network.";
    RequestTimeout = "request-timeout", None, "CLOUDSTACK_REQUEST_TIMEOUT", true,
        "duration from `1s` to `10m`", "`60s`",
        "Bounds one request to the API, answer included.";
    ConnectTimeout = "connect-timeout", None, "CLOUDSTACK_CONNECT_TIMEOUT", true,
        "duration from `100ms` to `2m`", "`10s`",
        "Bounds the setting up of one connection.";
    JobTimeout = "job-timeout", None, "CLOUDSTACK_JOB_TIMEOUT", true,
        "duration from `10s` to `24h`", "`10m`",
        "Bounds the wait for an async job; afterwards its outcome is unknown and is looked up.";
    PageSize = "page-size", None, "CLOUDSTACK_PAGE_SIZE", true,
        "1 to 10000", "`500`",
        "Asks for lists in pages of so many rows; a server that allows fewer is obeyed.";
    GetIfPostRefused = "get-if-post-refused", None, "CLOUDSTACK_GET_IF_POST_REFUSED", true,
        "boolean", "`false`",
        "Sends requests with GET once something in between has refused POST (405 or 501); API key and signature then stand in URLs, which proxies and servers write to their logs.";
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().key)
    }
}

impl Setting {
    /// Whether its value must never be shown.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::ApiKey | Self::SecretKey)
    }

    /// Whether the controller takes a change of it while it runs.
    pub fn is_live(self) -> bool {
        matches!(self, Self::ApiKey | Self::SecretKey | Self::CaFile)
    }

    /// The setting of a key in a file, in any case, as both the Go controller and the `cs` tool
    /// spell it.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        let is = |name: &str| name.eq_ignore_ascii_case(key);
        Self::ALL.iter().copied().find(|setting| {
            let spec = setting.spec();
            is(spec.key) || spec.cs.is_some_and(is)
        })
    }

    /// The setting whose key is most like `key`.
    pub(super) fn nearest(key: &str) -> Option<Self> {
        let keys = Self::ALL
            .iter()
            .map(|setting| setting.spec())
            .flat_map(|spec| [spec.key].into_iter().chain(spec.cs));
        nearest(key, keys).and_then(Self::of_key)
    }
}

/// Keys that the `cs` tool reads and that mean nothing here.
const CS_ONLY: [&str; 13] = [
    "cert",
    "cert_key",
    "dangerous_no_tls_verify",
    "expiration",
    "fetch_result",
    "job_timeout",
    "method",
    "name",
    "poll_interval",
    "retry",
    "theme",
    "timeout",
    "trace",
];

/// Whether only the `cs` tool uses a key: it is known, and ignored.
pub(super) fn is_cs_only(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key == "verify" || key.starts_with("header_") || CS_ONLY.contains(&key.as_str())
}

const PROXIES: &str = "\n## Proxies\n\n\
    Proxies come from the environment alone: `HTTPS_PROXY` for an `https` api-url, `HTTP_PROXY` for an `http` one, and\n\
    `ALL_PROXY` where that is not set; lower-case names work as well. An `https` request passes through a tunnel \
    (`CONNECT`):\n\
    the proxy learns host and port, nothing else. `NO_PROXY` lists what is reached directly, separated by commas: a \
    domain\n\
    (with all below it), an address, a network such as `10.0.0.0/8`, or `*` for everything. An api-url on loopback is \
    always\n\
    reached directly. User and password may stand in the URL of the proxy; they are never shown. A proxy that is \
    none, or\n\
    speaks something else than HTTP (`socks5://`), is a start error: it is not gone around. To the API server of \
    Kubernetes the\n\
    way leads through the `proxy-url` of the kubeconfig, or `HTTPS_PROXY`; within a cluster it is direct.\n";

/// What is read, and how much of it.
const LIMITS: &str = "\n## Limits\n\n\
    Whatever is larger, deeper or later than this is refused, with an error that says what was found and where:\n\n\
    | What | Limit | Beyond it |\n|---|---|---|\n\
    | the file of `--cloud-config` | 64 KiB, UTF-8 | start error; a running controller keeps what it has |\n\
    | `ca-file` | 4 MiB, at least one PEM certificate | the same |\n\
    | a manifest | 64 MiB, 64 levels in YAML, 128 in JSON | error with file and document |\n\
    | a snapshot or saved plan | 256 MiB | error with the file |\n\
    | a world for `simulate` | 64 MiB | error with the file |\n\
    | one answer of CloudStack | 16 MiB, 128 levels of JSON | of a list smaller pages are asked for, down to one row; \
    else an error with the command |\n\
    | all pages of one list | 256 MiB | error with the command; set `project-id` to see fewer objects |\n\
    | one request, answer included | `request-timeout`, also where it arrives byte by byte | error; whether it took \
    effect is looked up |\n\
    | intents on a Service, addresses in its record | 64 each | they count as absent, with Event `UnreadableRecord` |\n\
    | mistakes shown | 20 in a cloud-config, 50 in manifests, 10 in one list of networks | the rest is counted |\n\n\
    A redirect (3xx) is never followed, not even to the same host: the error names where it points to, without query, \
    and nothing\n\
    is sent there. What a TLS failure means stands in its error: an authority that is not trusted (`ca-file`), another \
    name than\n\
    that of `api-url`, a certificate out of its time, or a port that does not speak TLS.\n";

/// What becomes of changes, with the keys of live settings in front.
const CHANGES: &str = " are taken by a running controller when they change in the file, and so\n\
    is the content of the file that `ca-file` names: both files are looked at every 5 s, as a Secret that is mounted\n\
    brings them. What is new is tried first, with a client of its own: it must be accepted by CloudStack, and see at\n\
    least one of the machines that the pair in use sees. Until then what was there before is used, Event\n\
    `CredentialsKept` and the log say why, and it is tried again after 5 s, 10 s, and so on up to 5 min. Once it works,\n\
    Event `CredentialsReplaced` says so. So make a second pair, put it into the Secret, wait for that Event of each\n\
    replica, and only then remove the first one. A file with a mistake is left until it changes again. A change of any\n\
    other setting is named in the log and needs a restart.\n\n\
    The token of the service account and that of a `tokenFile` in a kubeconfig are read again every minute; a changed\n\
    CA of the API server needs a restart.\n";

/// The reference, as `deploy/docs/configuration.md` holds it.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         <!-- Generated from ccm/src/config/keys.rs; tests/tests/docs.rs compares. -->\n\n\
         The file that `--cloud-config` names is the one of the Go controller:\n\n\
         ```ini\n[Global]\n\
         api-url    = https://cloud.example.com/client/api\n\
         api-key    = <API key>\n\
         secret-key = <secret key>\n```\n\n\
         The file of the `cs` tool works as well: section `[cloudstack]` with `endpoint`, `key` and `secret`; keys \
         that only\nthat tool uses are ignored with a warning. Each setting can also be an environment variable or a \
         flag, except that\nthe two keys have no flag. A flag wins over the environment, which wins over the file. \
         Other variables that begin\nwith `CLOUDSTACK_` are ignored: Kubernetes makes such for Services.\n\n\
         | Key | Environment | Flag | Value | Default | What it does |\n|---|---|---|---|---|---|\n",
    );
    for setting in Setting::ALL {
        let Spec { key, cs, env, flag, value, default, doc } = setting.spec();
        let also = cs.map_or_else(String::new, |cs| format!(", `{cs}`"));
        let flag = if flag { format!("`--{key}`") } else { "none".to_owned() };
        // Writing to a String can't fail.
        let _ =
            writeln!(text, "| `{key}`{also} | `{env}` | {flag} | {value} | {default} | {doc} |");
    }
    text.push_str(
        "\nA boolean is `true`, `yes`, `on` or `1`, or `false`, `no`, `off` or `0`. A duration is a number with a \
         unit, for\nexample `30s`, `10m` or `1h30m`. A key with nothing after `=` counts as not set. A value may \
         stand in double quotes,\nin which `\\\\`, `\\\"`, `\\n` and `\\t` are read; outside of them `;` and `#` begin \
         a comment. An unknown key, a missing\none and a value that can't be read are start errors, all in one \
         message.\n",
    );
    let live = Setting::ALL.iter().filter(|setting| setting.is_live());
    let live: Vec<String> = live.map(|setting| format!("`{setting}`")).collect();
    let _ = write!(text, "\n## Changes\n\n{}{CHANGES}", live.join(", "));
    text.push_str(PROXIES);
    text.push_str(LIMITS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_secrets_have_no_flag() {
        let mut names: Vec<&str> = Vec::new();
        for setting in Setting::ALL {
            let spec = setting.spec();
            names.extend([spec.key, spec.env].into_iter().chain(spec.cs));
            assert!(spec.env.starts_with("CLOUDSTACK_"));
            assert_eq!(spec.flag, !setting.is_secret(), "{setting}");
            assert_eq!(Setting::of_key(spec.key), Some(*setting));
            assert!(!is_cs_only(spec.key));
            assert_eq!(Setting::nearest(spec.key), Some(*setting));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Setting::nearest("endpont"), Some(Setting::ApiUrl));
    }
}
