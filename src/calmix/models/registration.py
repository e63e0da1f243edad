"""Make the auto classes of transformers know calmix's own networks."""

from __future__ import annotations

from functools import cache


@cache
def register_networks() -> None:
    """After this, `AutoModelForImageClassification` and `AutoModelForSequenceClassification` load checkpoints
    of calmix's own networks. Without calmix they load with `trust_remote_code=True`: a checkpoint holds the
    code of its network."""
    from transformers import AutoConfig, AutoModelForImageClassification, AutoModelForSequenceClassification

    from calmix.models.networks.cifar_resnet import CifarResNetConfig, CifarResNetForImageClassification
    from calmix.models.networks.text_cnn import TextCnnConfig, TextCnnForSequenceClassification
    from calmix.models.networks.vgg import VggConfig, VggForImageClassification

    for config, network, family in (
        (CifarResNetConfig, CifarResNetForImageClassification, AutoModelForImageClassification),
        (VggConfig, VggForImageClassification, AutoModelForImageClassification),
        (TextCnnConfig, TextCnnForSequenceClassification, AutoModelForSequenceClassification),
    ):
        AutoConfig.register(config.model_type, config)
        family.register(config, network)
        # What makes save_pretrained put the network's code beside its weights.
        config.register_for_auto_class()  # type: ignore[no-untyped-call]
        network.register_for_auto_class(family.__name__)  # type: ignore[no-untyped-call]
