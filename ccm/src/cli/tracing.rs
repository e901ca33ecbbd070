//! Flags of traces.

use clap::Args;

use crate::traces::CollectorUrl;

#[derive(Debug, Args)]
#[command(next_help_heading = "Controller: Traces")]
pub(super) struct TraceArgs {
    /// URL of an OpenTelemetry collector that traces are sent to, as OTLP over HTTP: to
    /// `URL/v1/traces`. See `traces.md` [default: none are sent].
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    #[arg(hide_short_help = true, value_parser = endpoint)]
    otlp_endpoint: Endpoint,
}

/// A collector, if one is named.
#[derive(Clone, Debug)]
struct Endpoint(Option<CollectorUrl>);

fn endpoint(text: &str) -> Result<Endpoint, String> {
    if text.is_empty() {
        Ok(Endpoint(None))
    } else {
        CollectorUrl::parse(text).map(Some).map(Endpoint)
    }
}

impl TraceArgs {
    /// The collector that traces are sent to.
    pub(super) fn collector(&self) -> Option<&CollectorUrl> {
        let Endpoint(collector) = &self.otlp_endpoint;
        collector.as_ref()
    }
}
