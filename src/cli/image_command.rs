//! What the commands share that run models on files, folders and URLs.

use std::{io::IsTerminal, path::PathBuf, pin::pin};

use facescan_config::Config;
use facescan_pipeline::{
    context::RequestContext, ingest::intake::LoadedImage, results::ErrorEntry,
};
use futures::StreamExt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    files::{self, Found},
    runtime::{parts, store_nothing, tokio_runtime},
};
use crate::app::App;

/// Runs a command that stores nothing and embeds no whole images. See [`run_storing_if`].
pub(super) fn run<T>(
    config: Config,
    paths: &[PathBuf],
    work: impl AsyncFnOnce(&App) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    run_storing_if(false, config.without_encoder(), paths, work)
}

/// Starts the application, does the work of a command with it, and closes it. A command that stores nothing creates no
/// database file. One that stores creates the tables in `work`, when its options are known to be right.
pub(super) fn run_storing_if<T>(
    stores: bool,
    mut config: Config,
    paths: &[PathBuf],
    work: impl AsyncFnOnce(&App) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    files::check(paths)?;
    if !stores {
        store_nothing(&mut config);
    }
    tokio_runtime()?.block_on(async {
        let app = parts(&config)?.start(config).await?;
        let done = work(&app).await?;
        app.store.close().await;
        Ok(done)
    })
}

/// Does the work for every image of the paths, `jobs` images at a time, and calls `each` with the results in the order of
/// discovery. It shows a progress bar. If `jobs` is 0, enough images are in work to keep the CPU workers busy while files
/// are read.
///
/// # Errors
/// Returns the first error of `each`.
pub(super) async fn for_each_image<T>(
    app: &App,
    paths: &[PathBuf],
    jobs: usize,
    work: impl AsyncFn(&RequestContext, &Found) -> T,
    mut each: impl FnMut(&ProgressBar, Found, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let in_flight = match jobs {
        0 => app.config.imaging.worker_threads().get() + 1,
        jobs => jobs,
    };
    let progress = progress_bar(paths);
    let context = &app.run_context();
    let images = files::images(paths);
    let results = app
        .runner
        .admit_each(context, images, in_flight, async |found| {
            let done = work(context, &found).await;
            (found, done)
        });
    let mut results = pin!(results);
    while let Some((found, done)) = results.next().await {
        each(&progress, found, done)?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    files::say_what_was_left_out(paths);
    Ok(())
}

/// Loads the bytes of a file or a URL. The result has the reservation of its bytes, and the run ends it.
///
/// # Errors
/// Returns the error entry that a response would contain.
pub(super) async fn read(app: &App, found: &Found) -> Result<LoadedImage, ErrorEntry> {
    found.source()?.load(app).await
}

/// Creates a progress bar on standard error. It is visible only on a terminal.
pub(super) fn progress_bar(paths: &[PathBuf]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} images  {per_sec}  {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(files::images(paths).count() as u64).with_style(style)
}
