//! `facescan devices`: the devices on this machine that can run the operations.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use facescan_config::Config;

use super::runtime::{backend, store_nothing, tokio_runtime};
use crate::app::Parts;
use facescan_inference::{
    device::{DeviceMemory, DevicesReport, OperationReport, PreprocessingReport, ProviderReport},
    placement::{DevicePlacement, Precision},
    proof::prove_placement,
};

/// The output format.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print JSON in the format of `GET /devices`.
    #[arg(long)]
    json: bool,
}

/// Loads the models as the server does and prints the result. It also tries the execution providers that no operation
/// uses.
pub fn run(mut config: Config, args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    store_nothing(&mut config);
    tokio_runtime()?.block_on(async {
        let backend = backend(&config)?;
        let (index, threads) = (config.devices.device_id, config.runtime.threads());
        let app = Parts::new(backend.clone()).start(config).await?;
        let mut report = app.pipeline.devices.report();
        for tried in &mut report.backends {
            let Some(provider) = tried.is_untried() else {
                continue;
            };
            let placement = DevicePlacement {
                provider,
                index: if provider.is_on_cpu() { 0 } else { index },
                precision: Precision::Full,
            };
            *tried = ProviderReport::new(
                placement,
                prove_placement(backend.as_ref(), placement, threads).err(),
            );
        }
        print(&report, args.json)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn print(report: &DevicesReport, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    let mut table = columns(["BACKEND", "", ""]);
    for tried in &report.backends {
        let reason = tried.reason.clone().unwrap_or_default();
        table.add_row([tried.device.as_str(), tried.state, &reason]);
    }
    writeln!(out, "{table}\n")?;
    let mut table = columns(["DEVICE", "NAME", "MEMORY USED/TOTAL"]);
    for device in &report.devices {
        let name = device.name.clone().unwrap_or_default();
        table.add_row([device.id.as_str(), &name, &memory(device)]);
    }
    writeln!(out, "{table}\n")?;
    let mut table = columns(["OPERATION", "REQUESTED", "ACTIVE", "ON THE CPU", ""]);
    let PreprocessingReport { device, warm_up_ms } = &report.preprocessing;
    let ready = warm_up_ms.map(|ms| format!("ready after {ms:.0} ms"));
    let operations = report.operations.iter().map(|(name, found)| (*name, found));
    for (operation, found) in operations.chain([("preprocessing", device)]) {
        let ready = ready.clone().filter(|_| operation == "preprocessing");
        table.add_row([
            operation,
            &found.state.requested,
            &found.state.active,
            &found.cpu_provider,
            &remark(found, ready),
        ]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn columns<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    // On a terminal, long reasons wrap at its width.
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

fn memory(device: &DeviceMemory) -> String {
    let gib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1u32 << 30));
    match (device.memory_used, device.memory_total) {
        (Some(used), Some(total)) => format!("{}/{} GiB", gib(used), gib(total)),
        _ => "unknown".to_owned(),
    }
}

fn remark(found: &OperationReport, ready: Option<String>) -> String {
    let proof = found.proof.as_ref().map(|proof| {
        format!(
            "cosine {:.5}, {:.2} ms per row, nodes {:?}",
            proof.cosine, proof.row_ms, proof.nodes
        )
    });
    let on_cpu = found.cpu_proof.as_ref().map(|proof| proof.detail.clone());
    let down = found.health.as_ref().filter(|health| health.state != "up");
    let down =
        down.map(|health| format!("{}, {} consecutive failures", health.state, health.failures));
    [found.state.reason.clone(), down, proof, on_cpu, ready]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}
