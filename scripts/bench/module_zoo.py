"""Modules that nobody here wrote, each small and with random weights: of torchvision, timm and transformers, and the habits of PyTorch's
examples. ZOO maps a name to a function that returns a Case; what a library lacks is found out when it is called."""

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 5


@dataclass
class Case:
    module: nn.Module
    examples: list
    options: dict = field(default_factory=dict)  # of autotrain_export.export
    loss: str = "cross_entropy"  # of the recipe; "model" where the module computes it
    targets: str = "classes"  # classes or values, with the shape of a sample's, or none: of the data
    classes: int = CLASSES  # that targets are drawn from
    sums: bool = False  # whether the module's own loss is the sum over samples


ZOO = {}


def case(name):
    def add(function):
        ZOO[name] = function
        return function

    return add


def images(module, size=64, **options):
    return Case(module, [f"float32[4,3,{size},{size}]"], options)


def _vision(name, size=64, **arguments):
    import torchvision

    return images(torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **arguments), size)


for _name, _arguments in {
    "alexnet": {"dropout": 0.0}, "vgg11_bn": {"dropout": 0.0}, "resnet18": {}, "resnet50": {}, "resnext50_32x4d": {}, "densenet121": {},
    "squeezenet1_1": {"dropout": 0.0}, "shufflenet_v2_x0_5": {}, "mobilenet_v2": {"dropout": 0.0}, "mobilenet_v3_small": {"dropout": 0.0},
    "efficientnet_b0": {"dropout": 0.0, "stochastic_depth_prob": 0.0}, "efficientnet_v2_s": {}, "regnet_y_400mf": {}, "mnasnet0_5": {"dropout": 0.0},
    "convnext_tiny": {"stochastic_depth_prob": 0.0}, "swin_t": {}, "swin_v2_t": {},
}.items():  # fmt: skip
    ZOO[f"torchvision {_name}"] = lambda name=_name, arguments=_arguments: _vision(name, **arguments)


@case("torchvision vit")
def _():
    from torchvision.models import VisionTransformer

    return images(VisionTransformer(image_size=32, patch_size=8, num_layers=4, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=CLASSES), 32)


@case("torchvision maxvit")
def _():
    from torchvision.models import MaxVit

    return images(MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=CLASSES), 64)


@case("torchvision googlenet with auxiliary heads")
def _():
    case = _vision("googlenet", 96, aux_logits=True, init_weights=False)
    case.options = {"output_part": "logits"}
    return case


@case("torchvision inception_v3 with auxiliary heads")
def _():
    case = _vision("inception_v3", 96, aux_logits=True, init_weights=False)
    return case


@case("torchvision fcn_resnet50")
def _():
    import torchvision

    net = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=CLASSES)
    return Case(net, ["float32[4,3,32,32]"], {"output_part": "out"}, targets="classes 32 32")


@case("torchvision r3d_18")
def _():
    import torchvision

    return Case(torchvision.models.video.r3d_18(num_classes=CLASSES), ["float32[4,3,4,32,32]"])


for _name, _arguments in {
    "resnet10t": {}, "tf_efficientnet_lite0": {}, "convnext_atto": {}, "mobilevit_xxs": {}, "poolformer_s12": {}, "ghostnet_050": {}, "repvgg_a0": {},
    "edgenext_xx_small": {}, "levit_128s": {"img_size": 64}, "vit_tiny_patch16_224": {"img_size": 64}, "deit_tiny_distilled_patch16_224": {"img_size": 64},
    "mixer_s32_224": {"img_size": 64}, "gmlp_s16_224": {"img_size": 64}, "swin_tiny_patch4_window7_224": {"img_size": 64}, "eca_nfnet_l0": {},
}.items():  # fmt: skip

    def _timm(name=_name, arguments=_arguments):
        import timm

        return images(timm.create_model(name, num_classes=CLASSES, **arguments), 64)

    ZOO[f"timm {_name}"] = _timm

WORDS, LENGTH = 40, 16
FOLLOWING = {"targets": f"classes {LENGTH}", "classes": WORDS}  # of a sample of tokens: one for each
TOKENS = f"int64[4,{LENGTH}]<{WORDS}"
MASK = f"int64[4,{LENGTH}]<2"


def _transformers(model, config, examples, targets="tokens", output="logits", **arguments):
    import transformers

    made = getattr(transformers, config)(**arguments)
    of_samples = FOLLOWING if targets == "tokens" else {"targets": targets}
    return Case(getattr(transformers, model)(made), examples, {"output_part": output}, **of_samples)


BERT = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
LLAMA = dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
             max_position_embeddings=32, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)  # fmt: skip
GPT2 = dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
MASKED = [f"input_ids={TOKENS}", f"attention_mask={MASK}"]
for _name, _make in {
    "bert classifier with a mask": lambda: _transformers("BertForSequenceClassification", "BertConfig", MASKED, "classes", num_labels=CLASSES, **BERT),
    "bert masked words": lambda: _transformers("BertForMaskedLM", "BertConfig", [TOKENS], **BERT),
    "roberta": lambda: _transformers("RobertaForSequenceClassification", "RobertaConfig", [TOKENS], "classes", num_labels=CLASSES, **BERT),
    "electra": lambda: _transformers("ElectraForSequenceClassification", "ElectraConfig", MASKED, "classes", num_labels=CLASSES, embedding_size=16, **BERT),
    "albert": lambda: _transformers("AlbertForSequenceClassification", "AlbertConfig", MASKED, "classes", num_labels=CLASSES, embedding_size=16, **BERT),
    "distilbert with a mask": lambda: _transformers(
        "DistilBertForSequenceClassification", "DistilBertConfig", MASKED, "classes", num_labels=CLASSES, vocab_size=WORDS, dim=32, n_layers=2, n_heads=4,
        hidden_dim=64, max_position_embeddings=32, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0),
    "gpt2": lambda: _transformers("GPT2LMHeadModel", "GPT2Config", [TOKENS], **GPT2),
    "gpt2 with a mask": lambda: _transformers("GPT2LMHeadModel", "GPT2Config", MASKED, **GPT2),
    "llama": lambda: _transformers("LlamaForCausalLM", "LlamaConfig", [TOKENS], **LLAMA),
    "llama with a mask": lambda: _transformers("LlamaForCausalLM", "LlamaConfig", MASKED, **LLAMA),
    "mistral with a mask": lambda: _transformers("MistralForCausalLM", "MistralConfig", MASKED, sliding_window=8, **LLAMA),
    "qwen2 with tied words": lambda: _transformers("Qwen2ForCausalLM", "Qwen2Config", MASKED, tie_word_embeddings=True, **LLAMA),
    "gemma": lambda: _transformers("GemmaForCausalLM", "GemmaConfig", [TOKENS], head_dim=8, **LLAMA),
    "mixtral of experts": lambda: _transformers("MixtralForCausalLM", "MixtralConfig", [TOKENS], num_local_experts=4, **LLAMA),
    "opt": lambda: _transformers(
        "OPTForCausalLM", "OPTConfig", MASKED, vocab_size=WORDS, hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
        max_position_embeddings=32, dropout=0.0, use_cache=False),
    "gpt neox": lambda: _transformers("GPTNeoXForCausalLM", "GPTNeoXConfig", MASKED, vocab_size=WORDS, hidden_size=32, num_hidden_layers=2,
                                      num_attention_heads=4, intermediate_size=64, max_position_embeddings=32, use_cache=False),
    "bloom": lambda: _transformers("BloomForCausalLM", "BloomConfig", MASKED, vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, use_cache=False),
    "t5 with one embedding": lambda: _transformers(
        "T5ForConditionalGeneration", "T5Config", [f"input_ids={TOKENS}", f"decoder_input_ids={TOKENS}"], vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64,
        num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False, decoder_start_token_id=0),
    "bart": lambda: _transformers(
        "BartForConditionalGeneration", "BartConfig", [f"input_ids={TOKENS}", f"decoder_input_ids={TOKENS}"], vocab_size=WORDS, d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, dropout=0.0,
        use_cache=False),
    "mamba": lambda: _transformers("MambaForCausalLM", "MambaConfig", [TOKENS], vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4,
                                   use_cache=False, pad_token_id=0),
    "vit": lambda: _transformers("ViTForImageClassification", "ViTConfig", ["float32[4,3,32,32]"], "classes", num_labels=CLASSES, hidden_size=32,
                                 num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8),
    "segformer": lambda: _transformers("SegformerForImageClassification", "SegformerConfig", ["float32[4,3,64,64]"], "classes", num_labels=CLASSES,
                                       hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], decoder_hidden_size=32, drop_path_rate=0.0),
}.items():  # fmt: skip
    ZOO[f"transformers {_name}"] = _make


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.fc1, self.fc2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3), nn.Linear(2304, 32), nn.Linear(32, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


@case("example mnist")
def _():
    return Case(Digits(), ["float32[4,1,28,28]"])


class Words(nn.Module):
    """A language model of recurrent layers, with its head tied to its words."""

    def __init__(self, kind="LSTM", dropout=0.0, width=24):
        super().__init__()
        self.encoder = nn.Embedding(WORDS, width)
        self.rnn = getattr(nn, kind)(width, width, 2, dropout=dropout, batch_first=True)
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


for _kind in ("LSTM", "GRU", "RNN"):
    ZOO[f"example words by {_kind}"] = lambda kind=_kind: Case(Words(kind), [TOKENS], **FOLLOWING)
    ZOO[f"example words by {_kind} with dropout"] = lambda kind=_kind: Case(Words(kind, 0.3), [TOKENS], **FOLLOWING)


class WordsByTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 2)
        self.out = nn.Linear(32, WORDS)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.layers(self.words(tokens), mask=mask))


@case("example words by nn.TransformerEncoder")
def _():
    return Case(WordsByTransformer(), [TOKENS], **FOLLOWING)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 32)
        self.transformer = nn.Transformer(32, 4, 1, 2, 64, 0.0, batch_first=True)
        self.out = nn.Linear(32, WORDS)

    def forward(self, source, target):
        mask = self.transformer.generate_square_subsequent_mask(target.shape[1])
        return self.out(self.transformer(self.words(source), self.words(target), tgt_mask=mask, src_key_padding_mask=source == 0))


@case("example nn.Transformer with tgt_mask")
def _():
    return Case(Translator(), [f"source={TOKENS}", f"target={TOKENS}"], **FOLLOWING)


class Autoencoder(nn.Module):
    """A variational one, whose loss draws random numbers."""

    def __init__(self):
        super().__init__()
        self.fc1, self.mean, self.spread, self.fc3, self.fc4 = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(4, 32), nn.Linear(32, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mean, logvar = self.mean(h), self.spread(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        back = torch.sigmoid(self.fc4(F.relu(self.fc3(z))))
        apart = F.mse_loss(back, x, reduction="sum")
        return apart - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())


@case("example vae")
def _():
    return Case(Autoencoder(), ["float32[4,64]"], {"loss": True}, "model", "none", sums=True)


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1),
                                  nn.PixelShuffle(2))  # fmt: skip

    def forward(self, x):
        return self.body(x)


@case("example super resolution")
def _():
    return Case(SuperResolution(), ["float32[4,1,12,12]"], {}, "mse", "values 1 24 24")


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision

        self.resnet = torchvision.models.resnet18(weights=None)
        self.resnet.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        features = self.resnet.fc.in_features
        self.resnet = nn.Sequential(*list(self.resnet.children())[:-1])
        self.fc = nn.Sequential(nn.Linear(2 * features, 32), nn.ReLU(inplace=True), nn.Linear(32, 2))

    def forward(self, first, second):
        return self.fc(torch.cat([self.resnet(each).flatten(1) for each in (first, second)], 1))


@case("example siamese")
def _():
    return Case(Siamese(), ["first=float32[4,1,32,32]", "second=float32[4,1,32,32]"], classes=2)


class Sine(nn.Module):
    """Two cells over the time of a sequence."""

    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12), nn.Linear(12, 1)

    def forward(self, values):
        first = second = None
        outputs = []
        for value in values.split(1, dim=1):
            first = self.lstm1(value, first)
            second = self.lstm2(first[0], second)
            outputs.append(self.linear(second[0]))
        return torch.cat(outputs, dim=1)


@case("example time sequence")
def _():
    return Case(Sine(), ["float32[4,10]"], {}, "mse", "values 10")


class Double(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))  # fmt: skip


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc, self.down, self.up, self.conv = Double(3, 8), Double(8, 16), nn.ConvTranspose2d(16, 8, 2, 2), Double(16, 8)
        self.out = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        first = self.inc(x)
        return self.out(self.conv(torch.cat([first, self.up(self.down(F.max_pool2d(first, 2)))], 1)))


@case("example unet, classes for every pixel")
def _():
    return Case(UNet(), ["float32[4,3,16,16]"], targets="classes 16 16")


class Checkpointed(nn.Module):
    def __init__(self, reentrant=False):
        super().__init__()
        self.reentrant, self.first, self.out = reentrant, nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, CLASSES)
        self.blocks = nn.ModuleList([Double(8, 8) for _ in range(2)])

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        x = self.first(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=self.reentrant)
        return self.out(x.mean((2, 3)))


@case("example residual blocks under checkpoint")
def _():
    return images(Checkpointed(), 12)


@case("example residual blocks under reentrant checkpoint")
def _():
    return images(Checkpointed(True), 12)


@case("example weight_norm of old")
def _():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conv = nn.utils.weight_norm(nn.Conv1d(4, 8, 3, padding=1))
    return Case(nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES)), ["float32[4,4,12]"])


@case("example weight_norm of parametrizations")
def _():
    conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3, padding=1))
    return Case(nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES)), ["float32[4,4,12]"])


@case("example spectral_norm")
def _():
    conv = nn.utils.parametrizations.spectral_norm(nn.Conv1d(4, 8, 3, padding=1))
    return Case(nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES)), ["float32[4,4,12]"])


class Bag(nn.Module):
    def __init__(self, sparse=False):
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(WORDS, 16, mode="mean", sparse=sparse), nn.Linear(16, CLASSES)

    def forward(self, tokens):
        return self.out(self.bag(tokens))


@case("example bag of words")
def _():
    return Case(Bag(), [TOKENS])


@case("example sparse bag of words")
def _():
    return Case(Bag(sparse=True), [TOKENS])


@case("example compiled part")
def _():
    return Case(nn.Sequential(nn.Flatten(), torch.compile(nn.Sequential(nn.Linear(48, 16), nn.ReLU())), nn.Linear(16, CLASSES)), ["float32[4,3,4,4]"])


class Graph(nn.Module):
    """Two layers of graph convolution over a graph of eight nodes for each sample."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, CLASSES)

    def forward(self, nodes, edges):
        adjacency = edges.float() + torch.eye(edges.shape[1])
        adjacency = adjacency / adjacency.sum(2, keepdim=True)
        return self.second(adjacency @ F.relu(self.first(adjacency @ nodes))).mean(1)


@case("example graph convolution")
def _():
    return Case(Graph(), ["nodes=float32[4,8,6]", "edges=bool[4,8,8]"])


class Minimal(nn.Module):
    """A small GPT as people write it: attention by scaled_dot_product_attention, a table of positions, tied words."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.words, self.places = heads, nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.norm, self.mixed, self.project, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, WORDS, bias=False)
        self.words.weight = self.out.weight

    def forward(self, tokens):
        n, length = tokens.shape
        x = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in self.mixed(self.norm(x)).split(x.shape[2], dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(n, length, -1)
        return self.out(x + self.project(y))


@case("example nanogpt")
def _():
    return Case(Minimal(), [TOKENS], **FOLLOWING)
