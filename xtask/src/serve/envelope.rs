//! As much of a JSON-RPC message as it takes to answer it or to pass it on.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A message whose contents stay as they came.
#[derive(Deserialize, Debug)]
pub(crate) struct Envelope<'m> {
    #[serde(borrow)]
    pub(crate) id: Option<&'m RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<&'m str>,
    #[serde(borrow)]
    pub(crate) params: Option<&'m RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'m RawValue>,
}

/// What a call names.
#[derive(Deserialize, Debug)]
pub(crate) struct Called<'m> {
    #[serde(borrow)]
    pub(crate) name: Option<&'m str>,
}
