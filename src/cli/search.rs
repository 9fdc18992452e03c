//! `facescan search`: searches for the faces in images in a collection of a server.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use facescan_config::Sources;
use serde_json::{Value, json};

use super::{
    client::{Client, CollectionArgs, image_entry, json_object},
    files,
    runtime::tokio_runtime,
};

/// The images, and why their faces are searched for.
#[derive(Debug, Args)]
pub struct SearchArgs {
    #[command(flatten)]
    of: CollectionArgs,
    /// Why the faces are searched for. It must be the purpose of the collection.
    #[arg(long, value_name = "TEXT")]
    purpose: String,
    /// A reference to the case that the searches belong to. The audit trail has it.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// The other options of the searches, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_object, default_value = "{}")]
    options: Value,
}

/// Searches for the face of each image. Prints a table on a terminal, and one JSON line for each image otherwise.
pub fn run(args: &SearchArgs, sources: &Sources) -> anyhow::Result<ExitCode> {
    files::check(&args.of.paths)?;
    let mut options = args.options.clone();
    options["purpose"] = args.purpose.as_str().into();
    if let Some(case) = &args.case {
        options["case"] = case.as_str().into();
    }
    tokio_runtime()?.block_on(async {
        let client = Client::new(&args.of.server, sources)?;
        let path = format!("{}/searches", args.of.path());
        let mut code = ExitCode::SUCCESS;
        for found in files::images(&args.of.paths) {
            let mut result = match image_entry(&found).await {
                Ok(face) => {
                    let body = json!({"faces": [face], "options": options});
                    client.post(&path, &body).await?["results"][0].take()
                }
                Err(error) => json!({"status": "error", "error": {"detail": error.to_string()}}),
            };
            if result["status"] != "ok" {
                code = ExitCode::FAILURE;
            }
            result["path"] = found.name().into();
            print(&result)?;
        }
        files::say_what_was_left_out(&args.of.paths);
        Ok(code)
    })
}

fn print(result: &Value) -> io::Result<()> {
    let mut out = io::stdout();
    if !out.is_terminal() {
        return writeln!(out, "{result}");
    }
    let path = result["path"].as_str().unwrap_or_default();
    if let Some(detail) = result["error"]["detail"].as_str() {
        return writeln!(out, "{path}: {detail}");
    }
    let candidates = result["found"]["candidates"].as_array();
    let candidates = candidates.map(Vec::as_slice).unwrap_or_default();
    writeln!(out, "{path}: {} candidates", candidates.len())?;
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["rank", "subject", "similarity", "false accept rate"]);
    for candidate in candidates {
        let ids = ["external_id", "subject_id", "person_id", "enrollment_id"];
        let id = ids.iter().find_map(|name| candidate[name].as_str());
        table.add_row([
            candidate["rank"].to_string(),
            id.unwrap_or_default().to_owned(),
            format!(
                "{:.3}",
                candidate["similarity"].as_f64().unwrap_or_default()
            ),
            candidate["far"]["value"].to_string(),
        ]);
    }
    match candidates.is_empty() {
        true => Ok(()),
        false => writeln!(out, "{table}"),
    }
}
