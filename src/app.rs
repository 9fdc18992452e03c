//! The application: what every entry shares.
