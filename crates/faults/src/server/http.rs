//! Streamable HTTP, as much of it as a server needs that answers each request with one document.

use std::sync::{Arc, PoisonError};

use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use tokio::net::TcpListener;

use super::{Kind, Reply, Shop};
use crate::web::{Answered, Asked, empty, json};

const SESSION: &str = "mcp-session-id";

pub(super) async fn serve(shop: Arc<Shop>, listener: TcpListener) {
    crate::web::serve(listener, move |asked| {
        let shop = shop.clone();
        async move { answer(&shop, asked).await }
    })
    .await;
}

async fn answer(shop: &Arc<Shop>, asked: Asked) -> Answered {
    if asked.path != "/mcp" {
        return Ok(empty(StatusCode::NOT_FOUND));
    }
    if asked.method != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let Ok(message) = serde_json::from_slice::<serde_json::Value>(&asked.body) else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let is_legacy = matches!(shop.kind, Kind::Plain | Kind::A);
    if is_legacy && message["method"] != "initialize" && message["method"] != "server/discover" {
        let sessions = shop.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = asked.header(SESSION).is_some_and(|session| sessions.contains(session));
        if !known {
            return Ok(empty(StatusCode::NOT_FOUND));
        }
    }
    Ok(match shop.answer(&message).await {
        Reply::Json(status, body) => json(StatusCode::from_u16(status).unwrap_or_default(), &body),
        Reply::Opened(body, session) => {
            let mut response = json(StatusCode::OK, &body);
            if let Ok(value) = HeaderValue::from_str(&session) {
                response.headers_mut().insert(SESSION, value);
            }
            shop.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
            response
        }
        Reply::Accepted => empty(StatusCode::ACCEPTED),
    })
}
