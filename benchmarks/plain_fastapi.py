"""The encoder behind FastAPI as most people would first write it: one request, one forward pass.

The variable ENCODER names the encoder's folder.
"""

import os

import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(os.environ["ENCODER"])
model = AutoModel.from_pretrained(os.environ["ENCODER"]).eval()
app = FastAPI()


class Text(BaseModel):
    """What is asked."""

    text: str


@app.get("/health")
def health() -> dict[str, str]:
    """Up once the model is loaded."""
    return {"status": "ok"}


@app.post("/embed")
def embed(body: Text) -> list[float]:
    """The mean vector of a text."""
    tokens = tokenizer(body.text, return_tensors="pt", truncation=True, max_length=512)
    with torch.inference_mode():
        vector: list[float] = model(**tokens).last_hidden_state[0].mean(dim=0).tolist()
    return vector
