//! `facescan models`: the models in the registry and the state of their files.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, bail};
use comfy_table::{ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde_json::{Value, json};

use facescan_inference::{
    prepare::{PrepareError, PreparedModel, prepare},
    registry::{FileState, ModelSpec, Registry, Role},
};

/// The subcommands of `facescan models`.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum ModelsCommand {
    /// List the models of the registry and the state of their files
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Make model files from the shipped files; existing files stay unchanged
    Prepare {
        /// Models to prepare [default: all models that are made from a shipped file]
        ids: Vec<String>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Check every model file against the sha256 in the registry; fails if a file is wrong or missing
    Verify {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print everything about one model
    Info {
        /// The model's id, as `facescan models list` shows it
        id: String,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command and prints the result to standard output.
pub fn run(
    command: ModelsCommand,
    registry: &Registry,
    models_dir: &Path,
    shipped_dir: &Path,
) -> anyhow::Result<()> {
    let out = &mut io::stdout().lock();
    match command {
        ModelsCommand::List { json } => list(registry, models_dir, json, out),
        ModelsCommand::Prepare { ids, json } => {
            let models = chosen(registry, &ids)?;
            let report = prepare_each(&models, !ids.is_empty(), models_dir, shipped_dir)?;
            print_prepared(&report, json, out)
        }
        ModelsCommand::Verify { json } => verify(registry, models_dir, json, out),
        ModelsCommand::Info { id, json } => info(registry.get(&id)?, models_dir, json, out),
    }
}

fn list(
    registry: &Registry,
    models_dir: &Path,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if json {
        let models = registry
            .iter()
            .map(|model| described(model, models_dir))
            .collect::<anyhow::Result<Vec<Value>>>()?;
        return print_json(&Value::Array(models), out);
    }
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header([
            "id",
            "role",
            "family",
            "input",
            "dim",
            "license",
            "commercial use",
            "file",
        ]);
    for model in registry.iter() {
        let input = &model.input;
        table.add_row([
            model.id.clone(),
            model.role.to_string(),
            model.family.name().into(),
            format!("{}×{}", input.width, input.height),
            model.dim.map_or_else(String::new, |dim| dim.to_string()),
            model.license.clone(),
            if model.commercial_use { "yes" } else { "no" }.into(),
            word(model, &state(model, models_dir)?).into(),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

fn chosen<'a>(registry: &'a Registry, ids: &[String]) -> anyhow::Result<Vec<&'a ModelSpec>> {
    if ids.is_empty() {
        return Ok(registry.iter().filter(|m| m.prepare.is_some()).collect());
    }
    Ok(ids
        .iter()
        .map(|id| registry.get(id))
        .collect::<Result<_, _>>()?)
}

/// The result for each model. It is `None` for a skipped model, whose shipped file is opt-in and absent.
type Prepared<'a> = Vec<(&'a ModelSpec, Option<PreparedModel>)>;

fn prepare_each<'a>(
    models: &[&'a ModelSpec],
    named: bool,
    models_dir: &Path,
    shipped_dir: &Path,
) -> anyhow::Result<Prepared<'a>> {
    models
        .iter()
        .map(|&model| match prepare(model, shipped_dir, models_dir) {
            Ok(prepared) => Ok((model, Some(prepared))),
            Err(PrepareError::ShippedMissing(_)) if !named && opt_in(model) => Ok((model, None)),
            Err(error) => Err(error).with_context(|| format!("cannot prepare `{}`", model.id)),
        })
        .collect()
}

fn print_prepared(report: &Prepared, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if json {
        let rows = report.iter().map(|(model, prepared)| match prepared {
            Some(done) => json!({
                "id": model.id,
                "state": if done.written { "prepared" } else { "ready" },
                "path": done.path,
                "bytes": done.bytes,
                "sha256": done.sha256,
            }),
            None => json!({ "id": model.id, "state": "passed by" }),
        });
        return print_json(&rows.collect(), out);
    }
    for (model, prepared) in report {
        match prepared {
            Some(done) if done.written => {
                let (path, bytes) = (done.path.display(), done.bytes);
                writeln!(out, "{}: prepared, {bytes} bytes in {path}", model.id)?;
            }
            Some(_) => writeln!(out, "{}: already prepared", model.id)?,
            None => writeln!(
                out,
                "{}: skipped, because its file is opt-in and was not downloaded",
                model.id
            )?,
        }
    }
    Ok(())
}

fn verify(
    registry: &Registry,
    models_dir: &Path,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let mut wrong = 0;
    for model in registry.iter() {
        let state = state(model, models_dir)?;
        let is_unused = state == FileState::Missing && opt_in(model);
        let word = word(model, &state);
        let problem = match is_unused {
            true => None,
            false => model.verify_file(models_dir).err(),
        };
        let problem = problem.map(|error| error.to_string());
        wrong += usize::from(problem.is_some());
        if !json {
            let tail = problem.iter().map(|text| format!(": {text}"));
            writeln!(out, "{}: {word}{}", model.id, tail.collect::<String>())?;
        }
        rows.push(json!({ "id": model.id, "state": word, "problem": problem }));
    }
    if json {
        print_json(&Value::Array(rows), out)?;
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 model file does not match the registry"),
        _ => bail!("{wrong} model files do not match the registry"),
    }
}

fn info(
    model: &ModelSpec,
    models_dir: &Path,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let all = described(model, models_dir)?;
    if json {
        return print_json(&all, out);
    }
    let mut lines = Vec::new();
    flatten("", &all, &mut lines);
    let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, value) in lines {
        writeln!(out, "{key:width$}  {value}")?;
    }
    Ok(())
}

/// Returns the entry as JSON, with the path and the state of its file. An embedder also has its vector space.
fn described(model: &ModelSpec, models_dir: &Path) -> anyhow::Result<Value> {
    // Converts through text, which keeps the short form of an f32: 0.6 and not 0.6000000238418579.
    let mut all: Value = serde_json::from_str(&serde_json::to_string(model)?)?;
    let state = state(model, models_dir)?;
    all["path"] = json!(model.path(models_dir));
    all["state"] = word(model, &state).into();
    if let FileState::Different { found } = state {
        all["found_sha256"] = found.into();
    }
    if model.role != Role::Detector {
        all["vector_space"] = model.vector_space().into();
        if let Some(thresholds) = all["thresholds"].as_object_mut() {
            thresholds.retain(|key, _| key.starts_with("cosine"));
        }
    }
    Ok(all)
}

/// Flattens nested objects into dotted keys. A list stays on one line.
fn flatten(prefix: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{key}"), value, lines);
            }
        }
        Value::String(text) => lines.push((prefix.to_owned(), text.clone())),
        other => lines.push((prefix.to_owned(), other.to_string())),
    }
}

fn state(model: &ModelSpec, models_dir: &Path) -> anyhow::Result<FileState> {
    model
        .file_state(models_dir)
        .with_context(|| format!("cannot read {}", model.path(models_dir).display()))
}

fn word(model: &ModelSpec, state: &FileState) -> &'static str {
    match state {
        FileState::Ready => "ready",
        FileState::Remote => "remote",
        FileState::Missing if opt_in(model) => "missing (opt-in)",
        FileState::Missing => "missing",
        FileState::Different { .. } => "different",
    }
}

fn opt_in(model: &ModelSpec) -> bool {
    model.prepare.as_ref().is_some_and(|p| p.opt_in)
}

fn print_json(value: &Value, out: &mut impl Write) -> anyhow::Result<()> {
    Ok(writeln!(out, "{value:#}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> anyhow::Result<()>) -> (String, Option<String>) {
        let mut out = Vec::new();
        let error = write(&mut out).err().map(|error| format!("{error:#}"));
        (String::from_utf8(out).unwrap(), error)
    }

    #[test]
    fn info_prints_every_field_of_a_model() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::embedded().unwrap();
        let sface = registry.get("sface-2021dec").unwrap();
        std::fs::write(sface.path(folder.path()), b"wrong").unwrap();
        let (text, error) = text(|out| info(sface, folder.path(), false, out));
        assert_eq!(error, None);
        for (key, value) in [
            ("id", "sface-2021dec"),
            ("input.channel_order", "rgb"),
            ("input.mean", "[0.0,0.0,0.0]"),
            ("batch", "dynamic"),
            ("thresholds.cosine_far_1e3", "0.359"),
            ("state", "different"),
            ("vector_space", &sface.vector_space()),
        ] {
            let line = |line: &&str| line.split_whitespace().eq([key, value]);
            assert!(text.lines().any(|l| line(&l)), "{key} {value} in {text}");
        }
        assert!(text.contains("found_sha256"));
        assert!(!text.contains("nms_iou"));
    }

    #[test]
    fn verify_skips_an_absent_opt_in_model_and_fails_for_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::embedded().unwrap();
        let (text, error) = text(|out| verify(&registry, folder.path(), false, out));
        assert_eq!(error.unwrap(), "2 model files do not match the registry");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("yunet-2023mar: missing: model `yunet-2023mar`: field `file`")
        );
        assert_eq!(lines[2], "centerface: missing (opt-in)");
    }

    #[test]
    fn a_list_has_a_row_for_each_model() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::embedded().unwrap();
        let (table, _) = text(|out| list(&registry, folder.path(), false, out));
        let (json, _) = text(|out| list(&registry, folder.path(), true, out));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.as_array().unwrap().len(), registry.iter().count());
        for (model, row) in registry.iter().zip(json.as_array().unwrap()) {
            assert!(table.contains(&model.id));
            assert_eq!(row["id"], model.id.as_str());
        }
    }

    #[test]
    fn prepare_skips_an_absent_opt_in_model_unless_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::embedded().unwrap();
        let centerface = [registry.get("centerface").unwrap()];
        let report = prepare_each(&centerface, false, folder.path(), folder.path()).unwrap();
        assert_eq!(report[0].1, None);
        let error = prepare_each(&centerface, true, folder.path(), folder.path()).unwrap_err();
        assert!(format!("{error:#}").contains("`scripts/setup --tests` fetches it"));
    }
}
