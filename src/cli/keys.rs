//! `facescan keys`: keys of the API in the database.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets::NOTHING};
use facescan_clock::{Clock, SystemClock};
use facescan_store::ApiKey;
use secrecy::ExposeSecret;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::runtime::{open_database, tokio_runtime};
use crate::{
    access::keys::{self, ApiKeys, NewKey},
    config::{Config, ConfiguredKey, KeyDigest},
    context::scope::Scope,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key and print it. Nothing shows it again.
    Create(CreateArgs),
    /// List the keys of a tenant.
    List {
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Revoke a key. Servers accept it for `access.key_cache_s` more seconds.
    Revoke {
        /// The id: the part of the key between `fsk_` and the next `_`.
        id: String,
        /// The tenant. The default is `store.tenant`.
        #[arg(long)]
        tenant: Option<String>,
    },
}

/// The arguments of `facescan keys create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// A name for the key.
    #[arg(long)]
    name: String,
    /// What the key may do.
    #[arg(long, value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// The tenant whose results the key reads and writes. The default is `store.tenant`.
    #[arg(long)]
    tenant: Option<String>,
    /// The days after which the key expires. By default it never does.
    #[arg(long, value_name = "N")]
    expires_in_days: Option<u32>,
    /// Do not store the key. Print an entry for the setting `access.keys` too.
    #[arg(long)]
    digest: bool,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a value is not valid or the database cannot be used.
pub fn run(config: &Config, command: KeysCommand) -> anyhow::Result<ExitCode> {
    let own = |tenant: Option<String>| tenant.unwrap_or_else(|| config.store.tenant.clone());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    if let KeysCommand::Create(args) = &command
        && args.digest
    {
        return print_entry(
            new_key(args, own(args.tenant.clone()), clock.now()),
            clock.now(),
        );
    }
    tokio_runtime()?.block_on(async {
        let stores = open_database(config).await?;
        let keys = ApiKeys::new(Arc::clone(&stores.keys), Arc::clone(&clock));
        match command {
            KeysCommand::Create(args) => {
                let new = new_key(&args, own(args.tenant.clone()), clock.now());
                let (_, text) = keys.create(new).await?;
                writeln!(io::stdout(), "{}", text.expose_secret())?;
            }
            KeysCommand::List { tenant } => print_list(&keys.list(&own(tenant)).await?)?,
            KeysCommand::Revoke { id, tenant } => {
                let tenant = own(tenant);
                if !keys.revoke(&tenant, &id).await? {
                    bail!("the tenant {tenant} has no key {id}");
                }
            }
        }
        stores.scans.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

fn new_key(args: &CreateArgs, tenant: String, now: OffsetDateTime) -> NewKey {
    NewKey {
        tenant,
        name: args.name.clone(),
        scopes: args.scopes.clone(),
        expires_at: args.expires_in_days.map(|days| now + DAY * days),
    }
}

/// Prints a new key and its entry for the settings.
fn print_entry(new: NewKey, now: OffsetDateTime) -> anyhow::Result<ExitCode> {
    let scopes = new.scopes.clone();
    let (key, text) = keys::make(new, now)?;
    let entry = ConfiguredKey {
        id: key.id,
        sha256: KeyDigest(key.digest),
        tenant: key.tenant,
        scopes,
        expires_at: key.expires_at,
    };
    let mut out = io::stdout();
    writeln!(out, "{}", text.expose_secret())?;
    writeln!(out, "{}", serde_json::to_string(&entry)?)?;
    Ok(ExitCode::SUCCESS)
}

fn print_list(keys: &[ApiKey]) -> anyhow::Result<()> {
    let time = |time: Option<OffsetDateTime>| match time {
        None => Ok(String::new()),
        Some(time) => time.format(&Rfc3339),
    };
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "id",
        "name",
        "scopes",
        "created",
        "expires",
        "revoked",
        "last used",
    ]);
    for key in keys {
        table.add_row([
            key.id.clone(),
            key.name.clone(),
            key.scopes.join(","),
            time(Some(key.created_at))?,
            time(key.expires_at)?,
            time(key.revoked_at)?,
            time(key.last_used_at)?,
        ]);
    }
    writeln!(io::stdout(), "{table}")?;
    Ok(())
}
