//! The first connection to a database, and why there is none, in the words of whoever has to repair it.

use std::io;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

use crate::error::StoreError;
use crate::pools::Pools;
use crate::store::Store;

/// How long the start waits for a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why there is no connection to the database. No message has the user or the password.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nothing answers at the address.
    #[error(
        "cannot reach Postgres at {place} ({cause}); start it there, or set database.url to its address"
    )]
    Unreachable {
        /// Host and port, or the folder of the socket.
        place: String,
        /// What the operating system says.
        cause: String,
    },
    /// The server has no database of that name.
    #[error(
        "Postgres at {place} has no database `{name}`; create it with `createdb {name}`, or name another one in database.url"
    )]
    NoDatabase {
        /// Host and port, or the folder of the socket.
        place: String,
        /// The name of the database.
        name: String,
    },
    /// The server does not accept the user.
    #[error(
        "Postgres at {place} does not let this user in ({cause}); check the user and the password in database.url"
    )]
    Refused {
        /// Host and port, or the folder of the socket.
        place: String,
        /// The code of the answer.
        cause: String,
    },
    /// The file of SQLite cannot be opened.
    #[error(
        "cannot open the SQLite file {file} ({cause}); check that this user may write the file and its folder"
    )]
    File {
        /// The file.
        file: String,
        /// What SQLite says.
        cause: String,
    },
    /// The database cannot be used for another reason.
    #[error("{0}")]
    Other(#[from] StoreError),
}

impl ConnectionError {
    /// Returns whether a name in the settings must be wrong, so that waiting is of no use.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::NoDatabase { .. })
    }
}

impl Store {
    /// Connects once, beside the pool, whose own errors say only that a connection was not had in time.
    ///
    /// # Errors
    /// Returns why there is no connection.
    pub async fn try_connection(&self) -> Result<(), ConnectionError> {
        match self.pools() {
            Pools::Postgres { pool, .. } => {
                let options = pool.connect_options();
                let connected = timeout(PATIENCE, PgConnection::connect_with(&options)).await;
                let connected = connected
                    .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
                match connected {
                    Ok(connection) => {
                        // The answer to the farewell does not matter.
                        connection.close().await.ok();
                        Ok(())
                    }
                    Err(error) => Err(of_postgres(&options, error)),
                }
            }
            Pools::Sqlite { read, .. } => match read.acquire().await {
                Ok(_) => Ok(()),
                Err(error) => Err(ConnectionError::File {
                    file: read.connect_options().get_filename().display().to_string(),
                    cause: error.to_string(),
                }),
            },
        }
    }
}

fn of_postgres(options: &PgConnectOptions, error: sqlx::Error) -> ConnectionError {
    let place = match options.get_socket() {
        Some(folder) => folder.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let response = match &error {
        sqlx::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            let cause = error.to_string();
            return ConnectionError::Unreachable { place, cause };
        }
        sqlx::Error::Database(response) => response,
        _ => return StoreError::from(error).into(),
    };
    match response.code().unwrap_or_default() {
        code if code == "3D000" => ConnectionError::NoDatabase {
            place,
            name: options
                .get_database()
                .unwrap_or("with the name of the user")
                .to_owned(),
        },
        code if code.starts_with("28") => ConnectionError::Refused {
            place,
            cause: format!("SQLSTATE {code}"),
        },
        _ => StoreError::from(error).into(),
    }
}
