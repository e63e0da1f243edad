"""Tables, figures, the HTML report and the model card: what a run shows to people."""
