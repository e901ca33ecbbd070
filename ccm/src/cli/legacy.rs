//! Flags that Go controllers take and that have no effect here: ONE table. Manifests that set them
//! go on working, and the log says what they don't do any more.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::values::switch;

/// A flag without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Legacy {
    /// Its name, without dashes.
    pub(super) name: &'static str,
    /// Whether it is a boolean. One that is off asks for nothing, so nothing is said of it.
    pub(super) is_switch: bool,
    /// Why it has no effect, as the end of a sentence.
    pub(super) why: &'static str,
}

macro_rules! legacy {
    ($($why:literal: $($kind:ident $name:literal),+;)*) => {
        /// All of them.
        pub(super) const LEGACY: &[Legacy] =
            &[$($(Legacy { name: $name, is_switch: legacy!($kind), why: $why }),+),*];
    };
    (switch) => { true };
    (value) => { false };
}

legacy! {
    "objects in CloudStack are marked with `cluster-id`":
        switch "allow-untagged-cloud";
    "there are no volumes here":
        value "external-cloud-volume-plugin";
    "CloudStack has no routes to manage":
        switch "configure-cloud-routes", value "route-reconciliation-period",
        switch "allocate-node-cidrs", value "cluster-cidr", value "cidr-allocator-type",
        value "node-sync-period";
    "controllers start at once":
        value "controller-start-interval";
    "watches miss nothing, and `--drift-interval` says how often all is looked at":
        value "min-resync-period";
    "nothing is written unless something differs, so requests are few":
        value "kube-api-qps", value "kube-api-burst";
    "objects are read as JSON":
        value "kube-api-content-type";
    "all controllers use the service account of the process":
        switch "use-service-account-credentials";
    "there are no gates":
        value "feature-gates";
    "one Lease is enough":
        switch "enable-leader-migration", value "leader-migration-config";
    "one certificate is served":
        value "tls-sni-cert-key";
    "those that the TLS library holds safe are used":
        value "tls-cipher-suites", value "tls-curve-preferences";
    "HTTP/1.1 is served":
        switch "disable-http2-serving", value "http2-max-streams-per-connection";
    "the port is this process's alone":
        switch "permit-port-sharing", switch "permit-address-sharing";
    "a failed lookup is always tolerated, and made up for":
        switch "authentication-tolerate-lookup-failure";
    "there are no profiles":
        switch "profiling", switch "contention-profiling";
    "there are no webhooks":
        value "webhooks", value "webhook-secure-port", value "webhook-bind-address",
        value "webhook-cert-dir", value "webhook-tls-cert-file",
        value "webhook-tls-private-key-file", value "webhook-tls-sni-cert-key",
        value "webhook-tls-cipher-suites", value "webhook-tls-min-version",
        value "webhook-tls-curve-preferences", switch "webhook-disable-http2-serving";
    "logs go to stderr as `--log-level` and `--log-format` say":
        value "vmodule", value "log-flush-frequency", switch "log-text-split-stream",
        value "log-text-info-buffer-size", switch "log-json-split-stream",
        value "log-json-info-buffer-size", switch "logtostderr", switch "alsologtostderr",
        value "log-dir", value "log-file", value "log-file-max-size", value "stderrthreshold",
        value "log-backtrace-at", switch "add-dir-header", switch "one-output",
        switch "skip-headers", switch "skip-log-headers";
}

/// Those that were given and ask for something.
#[derive(Clone, Debug, Default)]
pub(super) struct LegacyFlags(Vec<Legacy>);

impl LegacyFlags {
    /// A line each.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|Legacy { name, is_switch: _, why }| {
            format!("`--{name}` is accepted and has no effect: {why}")
        })
    }
}

impl Args for LegacyFlags {
    fn augment_args(command: Command) -> Command {
        LEGACY.iter().fold(command, |command, Legacy { name, is_switch, why: _ }| {
            let argument = Arg::new(*name).long(*name).hide(true).action(ArgAction::Append);
            command.arg(if *is_switch {
                argument
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
                    .value_parser(switch)
            } else {
                argument.allow_hyphen_values(true)
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LegacyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let asks = |flag: &&Legacy| {
            if flag.is_switch {
                matches.get_many(flag.name).is_some_and(|mut on| on.next_back() == Some(&true))
            } else {
                matches.contains_id(flag.name)
            }
        };
        Ok(Self(LEGACY.iter().filter(asks).copied().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
