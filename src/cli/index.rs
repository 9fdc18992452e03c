//! `facescan index`: shows, rebuilds and purges the index of enrolled faces.

use std::{
    io::{self, IsTerminal, Write},
    num::NonZeroUsize,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use comfy_table::{Table, presets::NOTHING};
use facescan_clock::{Clock, SystemClock};
use facescan_config::Config;
use facescan_inference::pool::CpuPool;
use facescan_recognition::index::{FaceIndex, IndexContents, IndexKind};
use facescan_store::{IndexPosition, Store};
use serde::Serialize;
use uuid::Uuid;

use super::runtime::{open_database, tokio_runtime};
use crate::app::open_face_index;

/// The commands of `facescan index`. They use the database and the index of the settings, and no server of facescan.
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Show what the index has of each collection: a table on a terminal, one JSON line each otherwise.
    Status,
    /// Discard the index of collections, and build it again from the rows of the database. Searches go on meanwhile.
    Rebuild {
        /// The ids of the collections. By default all.
        #[arg(value_name = "ID")]
        collections: Vec<Uuid>,
    },
    /// Remove every byte of erased rows from the files of the database, and of erased faces from those of the index.
    ///
    /// Postgres writes its tables to new files, and nobody can use a table meanwhile. A Qdrant server gets all faces again.
    Purge,
}

/// Runs a command.
pub fn run(config: &Config, command: &IndexCommand) -> anyhow::Result<ExitCode> {
    tokio_runtime()?.block_on(async {
        let store = open_database(config).await?;
        let pool = CpuPool::new(NonZeroUsize::MIN).context("starting a thread")?;
        let index = open_face_index(config, &store, &Arc::new(pool)).await?;
        match command {
            IndexCommand::Status => status(&store, &*index).await?,
            IndexCommand::Rebuild { collections } => rebuild(&store, &*index, collections).await?,
            IndexCommand::Purge => purge(&store, &*index).await?,
        }
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// A collection, and what the index has of it.
#[derive(Serialize)]
struct Status {
    collection: Uuid,
    vector_space: String,
    dim: u32,
    /// The enrolled faces in the database.
    faces: u64,
    /// The changes of the collection so far.
    changes: u64,
    index: IndexContents,
}

async fn status(store: &Store, index: &dyn FaceIndex) -> anyhow::Result<()> {
    let mut statuses = Vec::new();
    for position in store.index_positions().await? {
        statuses.push(Status {
            index: index.contents(&position).await?,
            collection: position.collection_id,
            vector_space: position.vector_space,
            dim: position.dim,
            faces: position.enrolled,
            changes: position.position,
        });
    }
    Ok(print(&statuses)?)
}

async fn rebuild(store: &Store, index: &dyn FaceIndex, collections: &[Uuid]) -> anyhow::Result<()> {
    ensure!(
        index.kind() != IndexKind::Exact,
        "recognition.index is exact, which each server builds in its memory when it starts; restart the servers"
    );
    let all = store.index_positions().await?;
    for position in chosen(&all, collections)? {
        index.rebuild(position).await?;
        let id = position.collection_id;
        writeln!(io::stdout(), "{id}: rebuilt, {} faces", position.enrolled)?;
    }
    Ok(())
}

async fn purge(store: &Store, index: &dyn FaceIndex) -> anyhow::Result<()> {
    let now = SystemClock::start().now();
    if !store.rewrite_erased(now).await? {
        bail!(
            "other connections use the database, so its files were not purged; try again when less is going on"
        );
    }
    writeln!(io::stdout(), "the files of the database are purged")?;
    if index.kind() != IndexKind::Exact {
        index.purge().await?;
        writeln!(io::stdout(), "the files of the index are purged")?;
    }
    Ok(())
}

/// Returns the collections with these ids, or all.
fn chosen<'a>(all: &'a [IndexPosition], ids: &[Uuid]) -> anyhow::Result<Vec<&'a IndexPosition>> {
    if ids.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |id: &Uuid| {
        let found = all.iter().find(|position| position.collection_id == *id);
        found.with_context(|| format!("there is no collection {id}, or it was erased"))
    };
    ids.iter().map(find).collect()
}

fn print(statuses: &[Status]) -> io::Result<()> {
    let mut out = io::stdout();
    if !out.is_terminal() {
        for status in statuses {
            writeln!(out, "{}", serde_json::to_string(status)?)?;
        }
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["collection", "faces", "index", "rows", "changes", "bytes"]);
    let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for status in statuses {
        let index = &status.index;
        let missing = index
            .position
            .map(|has| format!("{has}/{}", status.changes));
        table.add_row([
            status.collection.to_string(),
            status.faces.to_string(),
            format!("{:?}", index.state).to_lowercase(),
            optional(index.rows),
            missing.unwrap_or_default(),
            optional(index.bytes),
        ]);
    }
    writeln!(out, "{table}")
}
